"""What the owner's commands share: the agent's socket, and what to say when nobody answers there."""

from __future__ import annotations

import argparse
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from gpunion.cli.campus import Json
from gpunion.cli.context import Context
from gpunion.cli.exits import CONFLICT, DENIED, OK, TIMEOUT, UNAVAILABLE, USAGE, Trouble
from gpunion.cli.output.screen import Screen
from gpunion.cli.quantities import shown_duration
from gpunion.text import counted

if TYPE_CHECKING:
    from gpunion.agent.settings import Settings

SLOW_AFTER_S = 3.0  # an agent that is well answers within a moment
END_OR_START = (
    "gpunion kill, to end them now; or gpunion agent, to start the agent: it finds them and goes on"
)
PROGRAM = "gpunion"
# Those with --state-dir, the longer ones first.
COMMANDS = (
    *("agent install", "agent uninstall", "agent", "terms set", "terms edit", "terms", "join", "status"),
    *("pause", "resume", "reclaim", "kill", "leave"),
)
STATUS_JSON = """`{message, status}`. `status` has `guests` (each `run_id`, `job_id`, `epoch`, `phase`,
`leaves_because`, `gpus`, `step`, `progress`, `since`, `preparing`, `saving`: null or `stage`, `for_s`,
`done_bytes`, `total_bytes` of a save that is under way), `how_to_stop`, `tenure`, `because`,
`terms` (as `gpunion terms --json` has them), `signs` (null, or `tells`: whether your terms let the campus
know that somebody is there, `told`: null or which of `owner-logged-in`, `owner-on-gpu`, `keyboard` it knows
of), `deadline_in_s`, `leaving`, `killed`,
`coordinator` (`url`, `connected`, `trouble`, `unsent_reports`), `lease_left_s`, `guests_end_in_s`,
`runtime` (`name`, `sandboxed`, `described`), `node_id`, `lab`,
`gpus` (each `index`, `model`, `memory_bytes`, `declared`, `speed`, `runs`, `withheld`, `uuid`,
`memory_used_bytes`, `utilisation`, `temperature_c`, `power_w`, `ecc_uncorrected`, `processes`, `stale`;
what nobody knows is null), `gpus_not_seen`,
`images` (null, or `quota_bytes`, `taken_bytes`, `kept`: each `image`, `size_bytes`), `vault`,
`keeps` (null, or `directory`, `limit_bytes`, `used_bytes`, `places`, `open`, `trouble`),
`unsent` (outputs that no place took and that stay here: each `run_id`, `size_bytes`, `until`, `folder`),
`disk` (null, or `room`: `fine`, `short`, `full` or `failing`, `free_bytes`, `trouble`), `disk_trouble`,
`state_dir`, `pid`, `version`."""


def add_state_dir(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--state-dir",
        type=Path,
        metavar="DIR",
        help="the agent's directory (GPUNION_STATE_DIR, or the usual one)",
    )


def add_gpus(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--gpu",
        type=gpu_numbers,
        metavar="N[,N]",
        help="these GPUs alone; the rest of the machine stays as it is (all of it)",
    )


def gpu_numbers(text: str) -> list[int]:
    numbers = text.split(",")
    if not all(number.strip().isdecimal() for number in numbers):
        raise argparse.ArgumentTypeError(f"{text!r} names no GPUs; write it like 0 or 0,1")
    return [int(number) for number in numbers]


def state_dir(arguments: argparse.Namespace, context: Context) -> Path:
    """The directory that is meant. What the command says to type next then means the same one, and the same
    program."""
    usual = usual_state_dir(context)
    meant = Path(arguments.state_dir).absolute() if arguments.state_dir else usual
    called, path = Path(sys.argv[0]).absolute(), context.environment.get("PATH", "")

    def mended(text: str) -> str:
        return as_it_is_called(with_state_dir(text, meant) if meant != usual else text, called, path)

    context.screen.mend = mended
    return meant


def as_it_is_called(text: str, called: Path, path: str) -> str:
    """The owner's commands in a text, as somebody types them whose shell finds another gpunion or none."""
    import re
    import shlex
    import shutil

    found = shutil.which(PROGRAM, path=path)
    if called.name != PROGRAM or (found is not None and os.path.realpath(found) == os.path.realpath(called)):
        return text
    typed = rf"(?<![\w/.-]){PROGRAM}(?= (?:{'|'.join(COMMANDS)})\b)"
    return re.sub(typed, lambda _: shlex.quote(str(called)), text)


def with_state_dir(text: str, folder: Path) -> str:
    """The owner's commands in a text, as somebody types them who does not mean the usual directory."""
    import re
    import shlex

    flag = f" --state-dir {shlex.quote(str(folder))}"
    typed = rf"\bgpunion (?:{'|'.join(COMMANDS)})\b(?! --state-dir)"
    return re.sub(typed, lambda found: found[0] + flag, text)


def owner_settings(folder: Path, context: Context) -> Settings:
    """As the agent would read them. Trouble: nobody has joined, or what is written is not understood."""
    from gpunion.agent.settings import SETTINGS_FILE, SettingsTrouble, load_settings

    try:
        return load_settings(folder, context.environment)
    except SettingsTrouble as trouble:
        what, _, next_step = str(trouble).partition("Next: ")
        code = USAGE if (folder / SETTINGS_FILE).exists() else CONFLICT
        raise Trouble(what.strip().removesuffix("."), next_step=next_step, code=code) from trouble


def usual_state_dir(context: Context) -> Path:
    """The one that is meant where nobody names one."""
    from gpunion.owner_kill.command import default_state_dir

    return Path(context.environment.get("GPUNION_STATE_DIR") or default_state_dir()).absolute()


def ask(question: Callable[[], Json], folder: Path | None = None, screen: Screen | None = None) -> Json:
    """`question` is a call of `gpunion.agent.owner.client`. `folder`: where to look for guests without it.
    `screen`: where to say that an answer takes long."""
    from gpunion.agent.owner.client import AgentHangs, AgentNotRunning, OwnerTrouble, Refused

    try:
        with _patience(screen):
            answer = question()
    except OwnerTrouble as trouble:
        code = {AgentNotRunning: UNAVAILABLE, AgentHangs: TIMEOUT, Refused: CONFLICT}.get(
            type(trouble), DENIED
        )
        what, _, next_step = str(trouble).partition("Next: ")
        if isinstance(trouble, AgentNotRunning) and folder is not None and not joined(folder):
            what, next_step = _part_of_nothing(folder)
        if isinstance(trouble, AgentNotRunning | AgentHangs) and folder is not None:
            here = guests_without_agent(folder)
            next_step = END_OR_START if here else next_step
            nobody = "No guest is on this machine." if here == "" else ""
            what = f"{what.strip()}\n{here or nobody}"
        if isinstance(trouble, AgentHangs):
            next_step = (
                "gpunion kill, to have the machine now; end the agent that hangs (its number: agent.lock) "
                "and start it again with gpunion agent: guests that live go on"
            )
        raise Trouble(what.strip(), next_step=next_step, code=code) from trouble
    status = answer["status"]
    if status.get("terms"):
        status = {**status, "terms": {**status["terms"], "agent_runs": True}}
    if screen is not None and status.get("how_to_stop"):  # programs type it as it is
        status = {**status, "how_to_stop": [screen.mend(typed) for typed in status["how_to_stop"]]}
    return {"message": answer["message"], "status": status}


def joined(folder: Path) -> bool:
    """False only where the directory is there and has no settings: nobody joined with it, or it has left."""
    from gpunion.agent.settings import SETTINGS_FILE

    return not folder.is_dir() or (folder / SETTINGS_FILE).exists()


def _part_of_nothing(folder: Path) -> tuple[str, str]:
    what = f"No agent of {folder} belongs to a campus: this machine has not joined with it, or has left"
    return what, "gpunion join URL --token TOKEN, or name the right one with --state-dir or GPUNION_STATE_DIR"


@contextmanager
def _patience(screen: Screen | None) -> Iterator[None]:
    """Whoever wants a machine back must not look at nothing until an agent that hangs is given up."""
    from gpunion.agent.owner.client import ANSWER_LIMIT_S

    if screen is None or screen.as_json:
        yield
        return
    words = (
        f"The agent is slow to answer; it has {ANSWER_LIMIT_S:.0f} s. "
        "`gpunion kill` ends all guests at once, without it."
    )
    hint = threading.Timer(SLOW_AFTER_S, lambda: screen.note(words))
    hint.daemon = True
    hint.start()
    try:
        yield
    finally:
        hint.cancel()


def guests_without_agent(folder: Path) -> str | None:
    """Who is on a machine whose agent does not answer, found without it. None: that cannot be told."""
    from gpunion.owner_kill.guest import ends_by_s, guest_dirs, lives

    if not folder.is_dir():
        return None
    try:
        living = [place for place in guest_dirs(str(folder)) if lives(place)]
    except OSError:
        return None  # it is the agent that was asked for
    if not living:
        return ""
    rows = [f"{Path(place).name}, which {_ends(ends_by_s(place))}" for place in living]
    count = "1 guest is" if len(rows) == 1 else f"{len(rows)} guests are"
    return f"{count} still on this machine: {'; '.join(rows)}."


def _ends(at_s: float | None) -> str:
    import time

    if at_s is None:
        return "ends by itself within seconds unless an agent comes"
    left_s = at_s - time.clock_gettime(time.CLOCK_BOOTTIME)
    if left_s <= 0:
        return "is being ended by its keeper"
    return f"ends by itself in {shown_duration(float(round(left_s)))} unless an agent comes"


def say(context: Context, answer: Json) -> int:
    if context.screen.as_json:
        context.screen.data(answer)
    else:
        context.screen.line(answer["message"])
        guests = answer["status"]["guests"]
        if guests:
            context.screen.line(f"Still here: {counted(len(guests), 'guest')}. gpunion status shows them.")
    return OK
