"""Builds what belongs here, and says whether it could."""

import sys

from gpunion.adapters.files.native.build import main

sys.exit(main())
