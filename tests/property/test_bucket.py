"""The same as `test_vault`, for a vault in a bucket: saves, cuts, collections, damage and restores.

A cut is the death of the process at any write to the bucket: the write has not been done, or it has been done
and nobody heard of it. Every action is another machine's, with a mirror of its own.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.bucket_vaults import BucketWorld
from tests.builders.vaults import DAMAGES, IN_MEMORY, SAVES, Script, does, play, scripts, train

pytestmark = [pytest.mark.no_cover, pytest.mark.requires("s3")]

CUTS = st.one_of(st.none(), st.integers(min_value=0, max_value=25))
SCRIPTS = scripts(SAVES, does("restart"), does("forget"), does("collect"), DAMAGES, cuts=CUTS, most=10)


@settings(max_examples=30, deadline=None)
@given(script=SCRIPTS, encrypted=st.booleans())
def test_what_can_be_seen_can_be_restored_byte_for_byte_whatever_was_cut(
    script: Script, encrypted: bool
) -> None:
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        play(BucketWorld(root=Path(folder), encrypted=encrypted), script)


@settings(max_examples=15, deadline=None)
@given(
    numbers=st.lists(st.integers(0, 11), min_size=1, max_size=10),
    tidy=st.sets(st.integers(0, 13)),
    encrypted=st.booleans(),
)
def test_a_training_that_is_saved_forgotten_and_collected_can_always_go_on(
    numbers: list[int], tidy: set[int], encrypted: bool
) -> None:
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        train(BucketWorld(root=Path(folder), encrypted=encrypted), numbers, tidy)
