from __future__ import annotations

from structlog.testing import capture_logs

from gpunion.coordinator.locations.space import Told


def test_the_log_has_each_trouble_once_and_that_it_is_over() -> None:
    told = Told("place_nearly_full")
    with capture_logs() as lines:
        told.tell({})
        told.tell({"campus": "3 MB are left"})
        told.tell({"campus": "2 MB are left"})
        told.tell({"campus": "2 MB are left", "attic": "none is left"})
        told.tell({"attic": "none is left"})
        told.tell({"attic": "none is left", "campus": "1 MB is left"})
    assert [(line["event"], line["place"], line["log_level"]) for line in lines] == [
        ("place_nearly_full", "campus", "warning"),
        ("place_nearly_full", "attic", "warning"),
        ("place_nearly_full_is_over", "campus", "info"),
        ("place_nearly_full", "campus", "warning"),
    ]
    assert lines[0]["trouble"] == "3 MB are left"
