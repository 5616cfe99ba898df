"""How the property tests search: `make test` tries the same examples every time, `make explore` new ones.

A property that fails for one example in a thousand is a bug to be found by who goes looking for bugs, not a
surprise for somebody whose change has nothing to do with it.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
EXPLORE = "GPUNION_EXPLORE"

settings.register_profile("same", derandomize=True, deadline=None, database=None)
settings.register_profile("explore", deadline=None, database=None, print_blob=True)
settings.load_profile("explore" if os.environ.get(EXPLORE) else "same")

QUICK = settings(deadline=None, database=None, max_examples=150, suppress_health_check=SLOW_IS_FINE)
FEW = settings(QUICK, max_examples=40)
