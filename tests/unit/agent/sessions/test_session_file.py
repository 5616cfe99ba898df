"""What a session's program says of itself is a guest's word: bounded, readable, and no more than shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpunion.adapters.runtimes.keeper import control_files
from gpunion.agent.program.session_file import SESSION_FILE, SessionNotes
from gpunion.agent.run_records.notes import RunNote
from gpunion.agent.sessions.gate import StreamGate
from gpunion.domain.ids import JobId, NodeId, RunId
from gpunion.domain.protocol.frames import Heartbeat, SessionNote
from gpunion.limits import MISSING_MAX
from gpunion.ports.runtime import GuestPaths
from gpunion.wire.agent_v1 import AGENT_FRAME_LIMIT_BYTES, pack, unpack_from_agent


def a_note(root: Path, *, session: bool = True) -> RunNote:
    (root / "control").mkdir(parents=True, exist_ok=True)
    places = {name: root / name for name in ("checkpoint_dir", "output_dir", "scratch_dir", "log_file")}
    paths = GuestPaths(root=root, control_dir=root / "control", **places)
    return RunNote(
        run_id=RunId(root.name),
        job_id=JobId("job"),
        epoch=1,
        gpu_indices=(0,),
        since_unix_s=0.0,
        paths=paths,
        session=session,
    )


class Said:
    def __init__(self, root: Path, *, gpu_works: bool = False) -> None:
        self.now_s, self.note, self.gpu_works = 100.0, a_note(root / "job-e1"), gpu_works
        self._notes = SessionNotes(
            control_files, StreamGate(), lambda: self.now_s, lambda indices: self.gpu_works
        )

    def read(self, text: str | None = None) -> SessionNote:
        if text is not None:
            (self.note.paths.control_dir / SESSION_FILE).write_text(text)
        (found,) = self._notes.read(
            [self.note, a_note(self.note.paths.root.parent / "other-e1", session=False)]
        )
        return found


def test_what_it_says_is_taken_over_and_its_idleness_counts_on(tmp_path: Path) -> None:
    said = Said(tmp_path)
    words = {"ready": True, "idle_s": 5.0, "kernels": 2, "level": "variables", "saved_s_ago": 1.0}
    first = said.read(json.dumps(words))
    assert (first.ready, first.idle_s, first.kernels, first.level) == (True, 5.0, 2, "variables")
    said.now_s += 30
    assert said.read().idle_s == 35.0
    assert said.read().saved_ago_s == 31.0
    assert said.read(json.dumps({**words, "idle_s": 1.0})).idle_s == 1.0


def test_nobody_is_idle_whose_gpu_works(tmp_path: Path) -> None:
    said = Said(tmp_path, gpu_works=True)
    assert said.read('{"ready": true, "idle_s": 9000}').idle_s == 0.0
    said.gpu_works, said.now_s = False, said.now_s + 60
    assert said.read().idle_s == 60.0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "nonsense",
        '{"ready": "yes", "idle_s": "long", "kernels": [], "level": 7, "missing": {"a": 1}, "ssh": {}}',
        '{"idle_s": -5, "kernels": -1, "saved_s_ago": -3, "saved_bytes": -9}',
        '{"idle_s": 1e400, "kernels": 1e400, "saved_bytes": 1e300}',
        '{"level": "park", "restored": "everything"}',
        json.dumps(
            {"missing": [{"name": "x" * 9000, "why": "\x1b[2J\u202e" * 900}] * 5000, "ssh": "y" * 9000}
        ),
        json.dumps({"missing": [{"why": "no name"}, {"name": 5}, None, "x"]}),
        "[" * 100_000,
        '{"a":' * 50_000,
        "x" * 2_000_000,
    ],
)
def test_whatever_lies_there_becomes_a_note_that_a_frame_may_carry(tmp_path: Path, text: str) -> None:
    note = Said(tmp_path).read(text)
    assert len(note.missing) <= MISSING_MAX
    beat = Heartbeat(sent_s=1.0, ack=0, sessions=(note,) * 8)
    data = pack(beat)
    assert len(data) < AGENT_FRAME_LIMIT_BYTES
    assert unpack_from_agent(data) == beat
    assert NodeId("a")


def test_a_link_to_a_file_of_the_hosts_is_not_read(tmp_path: Path) -> None:
    said = Said(tmp_path)
    (tmp_path / "secret").write_text('{"ready": true}')
    (said.note.paths.control_dir / SESSION_FILE).symlink_to(tmp_path / "secret")
    assert said.read().ready is False


def test_numbers_beyond_all_floats_say_nothing(tmp_path: Path) -> None:
    huge = 10**400
    words = {"ready": True, "idle_s": huge, "kernels": huge, "saved_s_ago": -huge, "saved_bytes": huge}
    found = Said(tmp_path).read(json.dumps(words))
    assert (found.ready, found.idle_s, found.kernels) == (True, 0.0, 0)
    assert (found.saved_ago_s, found.saved_bytes) == (None, None)
