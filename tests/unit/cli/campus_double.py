"""A coordinator that exists only in memory, and commands run against it."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpunion.cli.context import Context
from gpunion.cli.main import main
from gpunion.cli.output.screen import Screen
from gpunion.sdk.errors import ApiProblem, Unreachable
from gpunion.vault.job_directories import decode_list, encode_record
from tests.trees import SmallTree

Json = dict[str, Any]
NEVER = Path("/nonexistent")


def a_job(number: int = 1, **changes: Any) -> Json:
    job: Json = {
        "id": f"job-{number:026d}", "name": "train", "owner": "admin", "lab": "", "phase": "running",
        "priority": "normal", "command": ["python", "train.py"], "resources": {}, "bundle": None,
        "submitted_at": "2026-01-01T00:00:00.000Z", "ended_at": None, "epoch": 1, "node_id": "alpha",
        "home": "alpha", "moves": 0, "durable": None, "live": None, "exit_code": None, "output": None,
        "image": None, "preparing": None, "saving": None, "finishing": None, "room_for": None,
        "leaves_by": None, "session": None, "atomizable": False,
        "windows": {"shortest_s": None, "longest_s": None, "vram": "learned", "safe_every": 1, "not_on": [],
                    "bid": True},
    }  # fmt: skip
    return {**job, **changes}


def a_line(sentence: str, code: str = "placed", times: int = 1) -> Json:
    return {"at": "2026-01-01T00:00:00.000Z", "code": code, "sentence": sentence, "times": times}


def a_verdict(node: str, sentence: str | None = None) -> Json:
    refused = sentence is not None
    return {
        "node": node,
        "fits": not refused,
        "code": "no" if refused else None,
        "sentence": sentence,
        "score": 0.5,
    }


class CampusDouble:
    """Implements `gpunion.cli.campus.Campus`. `script` answers one question after another, as time passes."""

    def __init__(self, *jobs: Json) -> None:
        self.url = "http://campus.example"
        self.known = {job["id"]: job for job in jobs}
        self.submitted: list[Json] = []
        self.trees: dict[str, bytes] = {}
        self.blocks: dict[str, bytes] = {}
        self.batches: list[list[str]] = []
        self.cut_after: int | None = None
        self.made: SmallTree | None = None  # what `output` answers with
        self.fetched: list[str] = []
        self.stopped: list[str] = []
        self.sessions_there: list[Json] = []
        self.ended_sessions: list[str] = []
        self.stories: dict[str, list[Json]] = {}
        self.verdicts: list[Json] = []
        self.texts: dict[str, str] = {}
        self.lacking: str | None = None  # the machine whose last words of a job have not come
        self.sends = True  # and whether it can send them
        self.machines: list[Json] = []
        self.used: Json = {}  # what `usage` answers with
        self.usage_asked: tuple[float, str | None, str | None] | None = None
        self.gpus_seen: Json = {}  # what `gpu_history` answers with
        self.gpus_asked: tuple[float, str | None] | None = None
        self.past: Json = {}  # what `past_requests` answers with
        self.free_now: Json = {"nodes": [], "waiting": 0}
        self.outlook: Json = {}  # what `hazard` and `node_hazard` answer with
        self.books: Json = {}  # what `quotas` answers with
        self.open_windows: Json = {}  # what `windows` answers with
        self.waits: list[Json] = []
        self.listed: list[Json] = []
        self.published: list[Json] = []
        self.named: Json = {}  # settings of places
        self.place_troubles: dict[str, str] = {}
        self.place_room: dict[str, int] = {}  # bytes that are free; 0 is too little
        self.archives: dict[str, bytes] = {}
        self.saved: list[Json] = []
        self.refuses: Exception | None = None
        self.turns_away: Exception | None = None  # every job
        self.phases_asked: Sequence[str] = ()
        self.rows_answered = 0  # jobs, on all pages

    def campus(self) -> Json:
        self._maybe_refuse()
        return {
            "version": "0.1.0",
            "term": 1,
            "vault": str(NEVER),
            "timing": {},
            "now": "2026-01-01T00:00:00.000Z",
        }

    def offer_tree(self, digest: str, listing: bytes) -> Json:
        self._maybe_refuse()
        names = {name for entry in decode_list(listing) for name in entry.blocks}
        missing = sorted(names - self.blocks.keys())
        if not missing:
            self.trees[digest] = listing
        return {"digest": digest, "kept": not missing, "missing": missing}

    def put_blocks(self, blocks: Mapping[str, bytes], sent: Callable[[int], None]) -> Json:
        if self.cut_after is not None and len(self.blocks) >= self.cut_after:
            raise Unreachable(self.url, "the cable was pulled")
        self.batches.append(list(blocks))
        self.blocks |= blocks
        sent(sum(map(len, blocks.values())))
        return {"blocks": len(blocks), "stored_bytes": 0}

    def output(self, job_id: str) -> Json:
        self._find(job_id)
        if self.made is None:
            raise a_problem(404, "no_output", f"{job_id} has no output yet")
        head = {"job_id": job_id, "checkpoint_id": "c", "final": True, "step": 7}
        answer: Json = json.loads(b"".join(encode_record(head, self.made.files)))
        return answer

    def output_blocks(
        self, job_id: str, checkpoint_id: str, names: Sequence[str]
    ) -> Iterator[tuple[str, bytes]]:
        assert self.made is not None
        self.fetched += names
        for name in names:
            if self.cut_after is not None and len(self.fetched) > self.cut_after:
                raise Unreachable(self.url, "the cable was pulled")
            yield name, self.made.blocks[name]

    def places(self) -> Json:
        self._maybe_refuse()
        rows = [("campus", "campus", []), ("bucket", "s3", ["alpha", "beta"])]
        return {
            "usual": "campus",
            "places": [
                {
                    "name": name,
                    "kind": kind,
                    "where": f"where {name} is",
                    "settings": self.named.get(name, {}),
                    "trouble": self.place_troubles.get(name, ""),
                    "free_bytes": self.place_room.get(name),
                    "low": "little room is left" if self.place_room.get(name) == 0 else "",
                    "reached_by": nodes,
                }
                for name, kind, nodes in rows
            ],
        }

    def accept_place(self, name: str) -> Json:
        self.place_troubles.pop(name, None)
        return {"name": name, "trouble": ""}

    def environments(self) -> list[Json]:
        return self.published

    def add_environment(self, name: str, requirements: str) -> Json:
        one = {"name": name, "digest": "d" * 64, "packages": requirements.count("\n"), "installed": [],
               "added_at": "2026-11-16T09:00:00.000Z", "added_by": "admin"}  # fmt: skip
        self.published.append(one)
        return one

    def remove_environment(self, name: str) -> Json:
        return next(one for one in self.published if one["name"] == name)

    def images(self) -> list[Json]:
        return self.listed

    def add_image(self, image: str, archive: str | None = None) -> Json:
        name, _, digest = image.partition("@")
        entry: Json = {
            "image": image, "name": name, "digest": digest, "archive": archive, "size_bytes": None,
            "added_at": "2026-01-01T00:00:00.000Z", "added_by": "admin",
        }  # fmt: skip
        self.listed.append(entry)
        return entry

    def remove_image(self, image: str) -> Json:
        [entry] = [entry for entry in self.listed if image in (entry["image"], entry["name"])]
        self.listed.remove(entry)
        return entry

    def put_image_archive(self, file: Path, sent: Callable[[int], None]) -> str:
        data = file.read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        self.archives[digest] = data
        sent(len(data))
        return digest

    def submit(self, job: Mapping[str, Any]) -> Json:
        self._maybe_refuse()
        if self.turns_away is not None:
            raise self.turns_away
        if job.get("bundle", "") not in {"", *self.trees}:
            raise a_problem(422, "bundle_missing", "directory is not here")
        self.submitted.append(dict(job))
        made = a_job(len(self.known) + 1, name=job["name"], command=job.get("command", []), phase="pending")
        self.known[made["id"]] = made
        reason = {
            "subject": made["id"],
            "code": "waiting",
            "sentence": "waiting: no machine is part of this campus now",
        }
        return {"job": made, "reasons": [reason], "verdicts": []}

    def jobs(
        self,
        *,
        phases: Sequence[str] = (),
        nodes: Sequence[str] = (),
        oldest_first: bool = False,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Json:
        self._maybe_refuse()
        self.phases_asked = phases
        runs = {run for node in self.machines if node["id"] in nodes for run in node["runs"]}
        there = {run.rpartition("-e")[0] for run in runs}
        found = sorted(self.known.values(), key=lambda job: job["id"], reverse=not oldest_first)
        found = [job for job in found if not phases or job["phase"] in phases]
        found = [job for job in found if not nodes or job["id"] in there]
        at = [job["id"] for job in found].index(cursor) + 1 if cursor is not None else 0
        after = found[at:]
        page = after[:limit]
        self.rows_answered += len(page)
        cut = page[-1]["id"] if len(after) > limit else None
        return {"jobs": page, "next_cursor": cut, "total": len(found)}

    def job(self, job_id: str) -> Json:
        self._maybe_refuse()
        return self._find(job_id)

    def why(self, job_id: str) -> Json:
        job = self._find(job_id)
        story = self.stories.get(job_id, [])
        return {
            "job_id": job_id,
            "phase": job["phase"],
            "story": story,
            "verdicts": self.verdicts,
            "waits": self.waits,
            "preparing": job["preparing"],
            "saving": job["saving"],
            "finishing": job["finishing"],
            "places": self.place_troubles,
        }

    def stop(self, job_id: str) -> Json:
        job = self._find(job_id)
        self.stopped.append(job_id)
        return {"job": {**job, "phase": "stopping"}, "reasons": [], "verdicts": []}

    def checkpoints(self, job_id: str) -> list[Json]:
        self._find(job_id)
        return self.saved

    def sessions(self, *, all: bool = False) -> list[Json]:
        self._maybe_refuse()
        return [one for one in self.sessions_there if all or one["ended_at"] is None]

    def session(self, name: str) -> Json:
        found = [one for one in self.sessions_there if name in (one["name"], one["job_id"])]
        if not found:
            raise a_problem(404, "not_found", f"there is no session {name}")
        return found[-1]

    def end_session(self, name: str) -> Json:
        self.ended_sessions.append(name)
        return self.session(name)

    def logs(self, job_id: str, *, offset: int = 0, limit: int | None = None) -> Json:
        text = self.texts.get(job_id, "")[offset : offset + (limit or 65536)]
        over = self._find(job_id)["ended_at"] is not None
        lacking = self.lacking if over else None
        end = over and not (lacking and self.sends)
        return {"text": text, "next_offset": offset + len(text), "over": end, "lacking": lacking}

    def hazard(self) -> Json:
        self._maybe_refuse()
        return self.outlook

    def change_bids(self, job_id: str, windows: Mapping[str, Any]) -> Json:
        job = self._find(job_id)
        job["windows"] = {**job["windows"], **windows}
        return {"job": job, "reasons": [], "verdicts": []}

    def windows(self) -> Json:
        return self.open_windows

    def quotas(self) -> Json:
        self._maybe_refuse()
        return self.books

    def set_quota(self, name: str, gpus: int, *, priority: str | None = None) -> Json:
        self._maybe_refuse()
        return {
            "name": name,
            "priority": priority,
            "gpus": gpus,
            "set_at": "2026-01-01T00:00:00.000Z",
            "by": "admin",
        }

    def lift_quota(self, name: str, *, priority: str | None = None) -> Json:
        return self.set_quota(name, 3, priority=priority)

    def node_hazard(self, node_id: str) -> Json:
        self._maybe_refuse()
        return {**self.outlook, "node": node_id}

    def free(self) -> Json:
        self._maybe_refuse()
        return self.free_now

    def usage(self, *, for_s: float, lab: str | None = None, user: str | None = None) -> Json:
        self._maybe_refuse()
        self.usage_asked = (for_s, lab, user)
        return self.used

    def gpu_history(self, *, for_s: float, node: str | None = None) -> Json:
        self.gpus_asked = (for_s, node)
        return self.gpus_seen

    def past_requests(self, *, for_s: float) -> Json:
        self._maybe_refuse()
        return {**self.past, "length_s": for_s}

    def remove_node(self, node_id: str) -> Json:
        self._maybe_refuse()
        gone = next(node for node in self.machines if node["id"] == node_id)
        self.machines.remove(gone)
        return gone

    def accept_node(self, node_id: str) -> Json:
        self._maybe_refuse()
        found = next(node for node in self.machines if node["id"] == node_id)
        found["isolated_because"] = ""
        return found

    def nodes(self, *, all: bool = False) -> list[Json]:
        self._maybe_refuse()
        return self.machines if all else [node for node in self.machines if node["phase"] != "left"]

    def make_join_token(self, *, expires_in_s: float = 3600.0) -> Json:
        self._maybe_refuse()
        return {"join_token": f"join-{expires_in_s:.0f}", "expires_at": "2026-01-01T01:00:00.000Z"}

    def _find(self, job_id: str) -> Json:
        if job_id not in self.known:
            raise a_problem(404, "not_found", f"there is no job {job_id}")
        return self.known[job_id]

    def _maybe_refuse(self) -> None:
        if self.refuses is not None:
            raise self.refuses


def a_problem(status: int, code: str, detail: str, **body: Any) -> ApiProblem:
    return ApiProblem(
        code=code, title=code, detail=detail, next_step="do the right thing", status=status, body=body
    )


class Terminal:
    """Runs commands and keeps what they print."""

    def __init__(self, campus: CampusDouble, here: Path) -> None:
        self.campus = campus
        self.here = here
        self.environment: dict[str, str] = {"HOME": str(here / "home")}
        self.pauses: list[float] = []
        self.out = ""
        self.err = ""

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)

    def __call__(self, *words: str) -> int:
        screen = Screen(out=io.StringIO(), err=io.StringIO())
        context = Context(
            screen=screen,
            environment=self.environment,
            here=self.here,
            pause=lambda seconds: self.pause(seconds),
            open_campus=lambda _context, _arguments: self.campus,
        )
        code = main(list(words), context)
        assert isinstance(screen.out, io.StringIO)
        assert isinstance(screen.err, io.StringIO)
        self.out, self.err = screen.out.getvalue(), screen.err.getvalue()
        return code
