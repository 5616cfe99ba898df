"""What a session costs: until it is ready, a cell's echo, a download, and moves of one notebook in a row.

    python bench/sessions/run.py [--runtime sandbox|podman] [--moves 20] [--only ready,echo,download,moves]

A campus of real processes on this machine, `gpunion notebook` as its user runs it, a real JupyterLab.
"Direct" is the same question at the server's own socket in the guest. A move: the owner of its machine wants
it back, and lends again when the notebook is elsewhere; counted is from when nobody is answered any more
until a cell has its answer, through the address the page has. Guests are moved whole with `podman`, where
CRIU works, and by their variables with `sandbox`. Exit status 1: something was lost.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from tests.sessions.campus import Opened, SessionCampus, a_campus  # noqa: E402
from tests.sessions.jupyter import Jupyter  # noqa: E402

PARTS = ("ready", "echo", "download", "moves")
READY_TIMES, ECHO_TIMES, DOWNLOAD_TIMES = 5, 200, 3
DOWNLOAD_BYTES = 200 * 1000**2
NOTICE_S = 45.0
FILL = """
import hashlib
data = bytearray(b"x") * 20_000_000
count = 0
def digest(): return hashlib.blake2b(data, digest_size=8).hexdigest()
lines = (n for n in range(1000))
print(digest())
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runtime", default="sandbox", choices=["sandbox", "podman"])
    parser.add_argument("--moves", type=int, default=3)
    parser.add_argument("--only", default=",".join(PARTS))
    arguments = parser.parse_args()
    parts = arguments.only.split(",")
    with (
        tempfile.TemporaryDirectory(prefix="gpunion-sessions-", dir="/tmp") as folder,
        a_campus(Path(folder) / "campus", arguments.runtime) as campus,
    ):
        if arguments.runtime == "podman":
            campus.until_dumpable()
        found = measured(campus, parts, arguments.moves)
    print(json.dumps({"date": time.strftime("%Y-%m-%d"), "runtime": arguments.runtime, **found}, indent=2))
    return 1 if found.get("moves", {}).get("lost") else 0


def measured(campus: SessionCampus, parts: list[str], moves: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if "ready" in parts:
        found["ready_s"] = figures(
            [ready(campus, f"ready-{number}") for number in range(1 + READY_TIMES)][1:]
        )
    if {"echo", "download", "moves"} & set(parts):
        with campus.notebook("bench") as opened:
            direct = at_its_socket(campus, "bench")
            if "echo" in parts:
                found["echo_direct_ms"] = echo(direct)
                found["echo_ms"] = echo(opened.jupyter)
            if "download" in parts:
                found |= downloads(campus, opened.jupyter, direct)
            if "moves" in parts:
                found["moves"] = moved(campus, opened, moves)
    return found


def ready(campus: SessionCampus, name: str) -> float:
    began_s = time.monotonic()
    with campus.notebook(name):
        took_s = time.monotonic() - began_s
    with campus.campus.client() as client:
        client.end_session(name)
    campus.until(name, "over", lambda now: now["ended_at"])
    progress(f"ready after {took_s:.1f} s")
    return took_s


def echo(jupyter: Jupyter) -> dict[str, float]:
    kernel = jupyter.ask("POST", "/api/kernels", json={})["id"]
    with jupyter.kernel(kernel) as channel:
        channel.run("1")
        took_ms = [1000 * timed(lambda: channel.run("1")) for _ in range(ECHO_TIMES)]
    jupyter.ask("DELETE", f"/api/kernels/{kernel}")
    found = figures(took_ms)
    progress(f"echo of a cell {found['median']} ms")
    return found


def downloads(campus: SessionCampus, jupyter: Jupyter, direct: Jupyter) -> dict[str, Any]:
    kernel = jupyter.ask("POST", "/api/kernels", json={})["id"]
    jupyter.run(kernel, f"open('large.bin', 'wb').write(__import__('os').urandom({DOWNLOAD_BYTES}))")
    jupyter.ask("DELETE", f"/api/kernels/{kernel}")
    straight = [timed(lambda: fetched(direct)) for _ in range(DOWNLOAD_TIMES)]
    carried = [timed(lambda: fetched(jupyter)) for _ in range(DOWNLOAD_TIMES)]
    progress(f"200 MB: {statistics.median(carried):.2f} s, direct {statistics.median(straight):.2f} s")
    same_run = "interrupted" not in campus.why("bench")
    return {
        "download_direct_s": figures(straight),
        "download_s": figures(carried),
        "download_of_direct": round(statistics.median(straight) / statistics.median(carried), 3),
        "lease_kept": same_run and campus.session("bench")["moves"] == 0,
    }


def fetched(jupyter: Jupyter) -> None:
    count = 0
    with jupyter.http.stream("GET", "/files/large.bin") as answer:
        answer.raise_for_status()
        for piece in answer.iter_raw():
            count += len(piece)
    assert count == DOWNLOAD_BYTES, count


def moved(campus: SessionCampus, opened: Opened, times: int) -> dict[str, Any]:
    jupyter, address = opened.jupyter, opened.url
    kernel = jupyter.open_notebook("own.ipynb")
    digest = jupyter.run(kernel, FILL).strip()
    still, from_notice, levels, lost, line = [], [], [], [], 0
    for number in range(1, times + 1):
        jupyter.run(kernel, f"count = {number}")
        left = campus.until("bench", "ready", lambda now: now["here"] and now["ready"])["node"]
        asked_s = time.monotonic()
        campus.reclaim(left, NOTICE_S)
        campus.until("bench", "away", partial(is_away, left))
        stopped_s = time.monotonic()
        said = jupyter.run(kernel, "print(count, digest())", limit_s=150.0).split()
        answered_s = time.monotonic()
        after = campus.until("bench", "told", partial(has_come, left))
        campus.resume(left)
        still.append(answered_s - stopped_s)
        from_notice.append(answered_s - asked_s)
        levels.append(after["restored"])
        if said != [str(number), digest] or opened.url != address:
            lost.append({"move": number, "said": said})
        if after["restored"] == "whole":
            if jupyter.run(kernel, "print(next(lines))").strip() != str(line):
                lost.append({"move": number, "said": "its generator did not go on"})
            line += 1
        progress(f"move {number}: {after['restored']}, answered after {still[-1]:.1f} s")
    return {
        "moves": times,
        "lost": lost,
        "levels": {level: levels.count(level) for level in sorted(set(levels))},
        "from_stop_to_answer_s": figures(still),
        "from_notice_to_answer_s": figures(from_notice),
    }


def is_away(left: str, session: dict[str, Any]) -> bool:
    return not session["here"] or session["node"] != left


def has_come(left: str, session: dict[str, Any]) -> bool:
    return bool(session["restored"]) and session["node"] not in (None, left)


def at_its_socket(campus: SessionCampus, name: str) -> Jupyter:
    session = campus.session(name)
    places = campus.campus.state_dir(session["node"]).glob(
        f"guests/{session['job_id']}*/scratch/sockets/lab.sock"
    )
    return Jupyter(session["token"], socket=next(iter(places)))


def timed(work: Callable[[], object]) -> float:
    began_s = time.perf_counter()
    work()
    return time.perf_counter() - began_s


def figures(values: list[float]) -> dict[str, float]:
    return {
        "median": round(statistics.median(values), 3),
        "worst": round(max(values), 3),
        "count": len(values),
    }


def progress(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
