"""docs/cli.md is made from the commands."""

from __future__ import annotations

from gpunion.cli.reference import reference
from gpunion.cli.registry import COMMANDS


def test_the_reference_has_every_command_and_what_its_json_is() -> None:
    text = reference()
    for command in COMMANDS:
        section = text.partition(f"### `gpunion {command.name}`\n")[2].partition("\n### ")[0]
        assert section
        assert ("`--json`:" in section) is (command.load().json_shape is not None)


def test_every_command_is_one_that_a_reader_can_try() -> None:
    for command in COMMANDS:
        assert any(f"gpunion {command.name}" in example for example in command.load().examples)
