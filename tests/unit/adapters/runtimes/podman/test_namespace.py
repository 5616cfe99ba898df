"""A user's namespace that Podman cannot find again."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpunion.adapters.runtimes.containers.container_command import Engine, EngineTrouble
from gpunion.adapters.runtimes.podman.namespace import ask

# It answers once it has been told to migrate, and says then what the real one says of a dead container.
AFTER_A_POWER_CUT = """
if [ "$1" = system ]; then touch "$0.migrated"; echo container not running >&2; exit 125; fi
if [ -e "$0.migrated" ]; then echo an answer; exit 0; fi
echo 'invalid internal status, try resetting the pause process with "podman system migrate"' >&2
exit 1
"""
BROKEN = 'touch "$0.$1"; echo its storage is damaged >&2; exit 125'


def an_engine(folder: Path, script: str) -> Engine:
    program = folder / "podman"
    program.write_text(script)
    return Engine("podman", ["/bin/sh", str(program)])


def test_an_agent_comes_back_after_all_of_its_users_processes_were_killed(tmp_path: Path) -> None:
    engine = an_engine(tmp_path, AFTER_A_POWER_CUT)
    assert ask(engine, "ps", runs=lambda uid: False) == "an answer"


def test_containers_that_still_run_are_not_ended_for_it(tmp_path: Path) -> None:
    engine = an_engine(tmp_path, AFTER_A_POWER_CUT)
    with pytest.raises(EngineTrouble, match="resetting"):
        ask(engine, "ps", runs=lambda uid: True)
    assert not (tmp_path / "podman.migrated").exists()


def test_other_troubles_are_told_and_nothing_is_migrated(tmp_path: Path) -> None:
    with pytest.raises(EngineTrouble, match="damaged"):
        ask(an_engine(tmp_path, BROKEN), "ps", runs=lambda uid: False)
    assert not (tmp_path / "podman.system").exists()
