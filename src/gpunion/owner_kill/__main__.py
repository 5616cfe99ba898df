"""`python -m gpunion.owner_kill`: the kill without even the rest of the command line."""

import sys

from gpunion.owner_kill import main

sys.exit(main(sys.argv[1:]))
