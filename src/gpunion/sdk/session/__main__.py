"""`python3 -m gpunion.sdk.session notebook` and `... shell`."""

import sys

from gpunion.sdk.session.program import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
