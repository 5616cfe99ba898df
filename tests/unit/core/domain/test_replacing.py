"""The quick copy is the library's copy."""

from __future__ import annotations

import dataclasses

import pytest

from gpunion.domain.replacing import replace
from gpunion.policy.scheduling.notices import NoticeBook
from tests.builders import a_guest, a_job, a_node, a_run


@pytest.mark.parametrize("record", [a_job(), a_node(), a_run(), a_guest()])
def test_a_changed_copy_is_the_librarys_and_the_original_stays(record):
    before = dataclasses.replace(record)
    name = dataclasses.fields(record)[0].name
    changed = replace(record, **{name: "another"})
    assert changed == dataclasses.replace(record, **{name: "another"})
    assert type(changed) is type(record)
    assert record == before


def test_a_field_that_is_not_there_is_refused():
    with pytest.raises(TypeError, match="no field 'colour'"):
        replace(a_job(), colour="blue")  # type: ignore[call-arg]


def test_a_record_that_works_something_out_when_it_is_made_still_does():
    book = replace(NoticeBook(notices_s=(60.0,)), notices_s=(600.0, 30.0))
    assert book.chance_in_time(500.0, 0.0) == NoticeBook(notices_s=(30.0, 600.0)).chance_in_time(500.0, 0.0)
