"""The command `gpunion kill`: what it understands and what it says."""

from __future__ import annotations

import json
import os
import sys

from gpunion.owner_kill import KillReceipt, kill_all

USAGE = "usage: gpunion kill [--state-dir DIR] [--json]"


def default_state_dir() -> str:
    chosen = os.environ.get("GPUNION_STATE_DIR")
    if chosen:
        return chosen
    if os.geteuid() == 0:
        return "/var/lib/gpunion"
    return os.path.join(os.path.expanduser("~"), ".local", "state", "gpunion")


def main(argv: list[str]) -> int:
    """Exit status 0: nothing of a guest lives and none will start. 1: not so, and why. 2: usage."""
    words = list(argv)
    as_json = "--json" in words
    words = [word for word in words if word != "--json"]
    if words in (["-h"], ["--help"]):
        print(f"{USAGE}\n\nEnds every guest on this machine at once, without notice and without the agent.")
        return 0
    state_dir = default_state_dir()
    if len(words) == 2 and words[0] == "--state-dir":
        state_dir = words[1]
    elif words:
        print(f"gpunion kill does not know {' '.join(words)!r}\n{USAGE}", file=sys.stderr)
        return 2
    if not os.path.isdir(state_dir):
        return _no_state_dir(state_dir, as_json)
    receipt = kill_all(state_dir)
    print(_as_json(receipt) if as_json else _as_text(receipt, _where(state_dir)))
    return 0 if receipt.complete else 1


def _no_state_dir(state_dir: str, as_json: bool) -> int:
    what = f"No guest was ended: there is no state directory {state_dir}"
    next_step = "name the one your agent uses with --state-dir or GPUNION_STATE_DIR"
    message = f"{what}.\nNext: {next_step}."
    if as_json:
        message = json.dumps({"error": what, "why": None, "next_step": next_step, "exit_code": 1})
    print(message, file=sys.stderr)
    return 1


def _as_json(receipt: KillReceipt) -> str:
    return json.dumps({name: getattr(receipt, name) for name in (*KillReceipt.__slots__, "complete")})


def _where(state_dir: str) -> str:
    """What the next command has to be told for it to mean the same directory."""
    if os.path.abspath(state_dir) == os.path.abspath(default_state_dir()):
        return ""
    import shlex

    return f" --state-dir {shlex.quote(state_dir)}"


def _as_text(receipt: KillReceipt, where: str) -> str:
    count = len(receipt.ended)
    lines = [f"Ended {count} guest{'' if count == 1 else 's'} in {receipt.took_s * 1000:.0f} ms."]
    lines += [f"  {run_id}" for run_id in receipt.ended]
    if receipt.survivors:
        pids = ", ".join(str(pid) for pid in receipt.survivors)
        lines.append(f"STILL ALIVE: processes {pids}. Run this again as root, or as the agent's user.")
    if receipt.trouble:
        lines.append(f"WARNING: {receipt.trouble}.")
    else:
        lines.append(f"No guest starts on this machine until you share it again. Next: gpunion resume{where}")
    return "\n".join(lines)
