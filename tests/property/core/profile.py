"""How the property tests of the core search: the same examples every time, no files, no clock."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]

QUICK = settings(
    derandomize=True, deadline=None, database=None, max_examples=150, suppress_health_check=SLOW_IS_FINE
)
FEW = settings(QUICK, max_examples=40)
