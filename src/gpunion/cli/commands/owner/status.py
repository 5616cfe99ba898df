"""`gpunion status`: first what is running on this machine, then how to stop it."""

from __future__ import annotations

import argparse
import shlex

from gpunion.cli.agent_socket import STATUS_JSON, add_state_dir, ask, state_dir
from gpunion.cli.campus import Json
from gpunion.cli.context import Context
from gpunion.cli.exits import OK
from gpunion.cli.output.screen import Table
from gpunion.cli.output.times import ago
from gpunion.cli.quantities import (
    shown_duration,
    shown_indices,
    shown_preparing,
    shown_reached,
    shown_saving,
    shown_size,
)
from gpunion.cli.terms import warnings
from gpunion.text import counted

JSON = STATUS_JSON
# What each word of the agent's means to its owner.
TENURES = {
    "sharing": "guests may come",
    "paused": "no new guests come until gpunion resume",
    "reclaiming": "guests are leaving, and no new ones come",
    "reclaimed": "it is yours, and no guest comes until it is lent again (gpunion resume)",
    "left": "it is no part of a campus any more",
}
SIGNS = {
    "owner-logged-in": "somebody is logged in",
    "owner-on-gpu": "somebody computes on a GPU",
    "keyboard": "somebody types",
}
NO_GPU_LENT = "but none of its GPUs takes new guests: only those may come that need none"
NO_ROOM = "but no new guests come before there is room on its disk"
FAILING = "but no new guests come while its disk fails"
OUT_OF_TOUCH = "but no new guests come while the coordinator is out of reach"
NOT_SAVED = "but no guests come whose work could not be saved from here"
EXAMPLES = ("gpunion status",)


def configure(parser: argparse.ArgumentParser) -> None:
    add_state_dir(parser)


def run(arguments: argparse.Namespace, context: Context) -> int:
    from gpunion.agent.owner import client as owner_client

    place = state_dir(arguments, context)
    answer = ask(lambda: owner_client.status(place), place, context.screen)
    if context.screen.as_json:
        context.screen.data(answer)
        return OK
    status = answer["status"]
    _show_guests(context, status)
    _show_gpus(context, status)
    for line in _lines(status):
        context.screen.line(line)
    return OK


def _show_guests(context: Context, status: Json) -> None:
    guests = status["guests"]
    if not guests:
        context.screen.line("No guest is on this machine.")
        return
    count = "1 guest is" if len(guests) == 1 else f"{len(guests)} guests are"
    context.screen.line(f"{count} on this machine:")
    columns = ("WHO", "JOB", "PHASE", "GPUS", "PROGRESS", "SINCE", "RUN")
    rows = [
        [
            _who(guest),
            guest["name"] or "-",
            guest["phase"],
            shown_indices(guest["gpus"]),
            _progress(guest),
            ago(guest["since"]),
            guest["run_id"],
        ]
        for guest in guests
    ]
    context.screen.table(Table(columns=columns, rows=list(rows)))
    for guest in guests:
        if guest.get("parked"):
            context.screen.line(_stands_still(guest, guest["parked"]))
        if guest.get("session") or guest.get("entered"):
            context.screen.line(_typed_in(guest))
    gently, at_once = status["how_to_stop"]
    context.screen.line(f"To have it back: {gently} (they may save their work), or {at_once} (now).")


def _stands_still(guest: Json, parked: Json) -> str:
    """Whose GPU it is meanwhile, and what that costs the owner."""
    name, size, time = guest["name"] or guest["run_id"], shown_size(parked["memory_bytes"]), parked["for_s"]
    whose = "while you use its GPU; it goes on when you are done"
    if parked["for_job"] is not None:
        who = f"{parked['for_job']}, of a higher class,"
        whose = f"while {who} has its GPU; it goes on after that, or elsewhere"
    return (
        f"{name} has stood still in {size} of your memory for {shown_duration(time)}, {whose}. "
        "To allow that no more: gpunion terms set park=no"
    )


def _typed_in(guest: Json) -> str:
    now = counted(guest["streams"], "connection")
    what = "is a session: its user types commands in it" if guest["session"] else "has somebody inside"
    return (
        f"{guest['name'] or guest['run_id']} {what}, shut in like every guest ({now} now). "
        "To allow none: gpunion terms set sessions=no"
    )


def _who(guest: Json) -> str:
    lab = f" ({guest['lab']})" if guest["lab"] else ""
    return f"{guest['user'] or '-'}{lab}"


def _progress(guest: Json) -> str:
    if guest["preparing"]:
        return shown_preparing(guest["preparing"])
    saving = guest.get("saving")  # an agent that was not restarted since an upgrade does not say
    reached = shown_reached(guest["progress"], guest["step"])
    return reached + (f"; a save is {shown_saving(saving)}" if saving else "")


def _show_gpus(context: Context, status: Json) -> None:
    if not status["gpus"]:
        context.screen.line("It lends no GPU.")
        return
    columns = ("GPU", "MODEL", "LENT", "ON IT", "MEMORY", "USE", "HEAT", "POWER", "KNOWN BY")
    names = {
        guest["run_id"]: f"{_who(guest)}: {guest['name'] or guest['run_id']}" for guest in status["guests"]
    }
    context.screen.table(
        Table(columns=columns, rows=[_gpu_row(gpu, names, status) for gpu in status["gpus"]])
    )


def _gpu_row(gpu: Json, names: dict[str, str], status: Json) -> list[str]:
    used, total = gpu["memory_used_bytes"], shown_size(gpu["memory_bytes"])
    return [
        str(gpu["index"]),
        gpu["model"],
        _lent(gpu["withheld"], status),
        ", ".join(_on_it(gpu, names)) or "nobody",
        total if used is None else f"{shown_size(used)} of {total}",
        "-" if gpu["utilisation"] is None else f"{gpu['utilisation']:.0%}",
        "-" if gpu["temperature_c"] is None else f"{gpu['temperature_c']:.0f} C",
        "-" if gpu["power_w"] is None else f"{gpu['power_w']:.0f} W",
        "settings" if gpu["declared"] else "driver",
    ]


def _lent(withheld: Json | None, status: Json) -> str:
    """What is true of the whole machine is true of each GPU that was not taken back alone."""
    if withheld is None:
        if status["tenure"] == "reclaiming" and status["deadline_in_s"] is not None:
            return f"yours in {shown_duration(status['deadline_in_s'])}"
        return {"sharing": "yes", "paused": "no new guests"}.get(status["tenure"], "no")
    if withheld["deadline_in_s"] is not None:
        return f"yours in {shown_duration(withheld['deadline_in_s'])}"
    return "no new guests" if withheld["phase"] == "paused" else "no"


def _on_it(gpu: Json, names: dict[str, str]) -> list[str]:
    """Guests, whether or not the driver names their processes; then the owner's own."""
    own = [process for process in gpu["processes"] if process["run_id"] is None and not process["ignored"]]
    guests = [names.get(run_id, run_id) for run_id in gpu["runs"]]
    return [*guests, *(f"you: {process['name']} ({process['pid']})" for process in own)]


def _lines(status: Json) -> list[str]:
    coordinator, runtime = status["coordinator"], status["runtime"]
    deadline_s = status["deadline_in_s"]
    lab = f" of lab {status['lab']}" if status["lab"] else ""
    disk = status.get("disk")  # an agent that was not restarted since an upgrade does not say
    no_room = disk is not None and disk["trouble"]
    why_not = FAILING if disk is not None and disk["room"] == "failing" else NO_ROOM
    means = why_not if no_room and status["tenure"] == "sharing" else TENURES[status["tenure"]]
    vault_trouble = status.get("vault_trouble")
    if status["tenure"] == "sharing" and not no_room:
        means = NO_GPU_LENT if _every_gpu_withheld(status) else means
        means = means if coordinator["connected"] else OUT_OF_TOUCH
        means = NOT_SAVED if vault_trouble else means
    lines = ["", f"{status['node_id']}{lab} is {status['tenure']}: {means}."]
    if status["because"]:
        lines.append(f"Your terms say so: {status['because']}.")
    if status["terms"] is not None and status["terms"]["lent_in_spite"]:
        lines.append("By your hours it would not be lent now: you said gpunion resume all the same.")
    if deadline_s is not None:
        what = "It leaves the campus" if status["leaving"] else "It is yours"
        lines.append(f"{what} in {shown_duration(deadline_s)} at the latest.")
    if status["killed"] and status["tenure"] != "left":
        lines.append("You killed all guests; none comes until: gpunion resume")
    trouble = f" ({coordinator['trouble']})" if coordinator["trouble"] else ""
    link = "connected" if coordinator["connected"] else "NOT connected"
    lines.append(f"Coordinator: {coordinator['url']}, {link}{trouble}")
    if not coordinator["connected"] and status["guests"] and status.get("guests_end_in_s") is not None:
        left = shown_duration(status["guests_end_in_s"])
        lines.append(f"If it stays away, guests are saved and end in {left} (gpunion terms: autonomy)")
    lines.append(
        f"Guests are shut in: {'yes' if runtime['sandboxed'] else 'NO, UNSANDBOXED'} ({runtime['described']})"
    )
    images = status["images"]
    if images is not None and images["kept"]:
        taken, quota = shown_size(images["taken_bytes"]), shown_size(images["quota_bytes"])
        lines.append(f"Images that guests brought: {len(images['kept'])}, {taken} of the {quota} you allow")
    if signs := status.get("signs"):
        lines += _told_of_you(signs)
    if keeps := status.get("keeps"):
        lines += _kept(keeps)
    lines += map(_unsent, status.get("unsent", ()))
    lines += [gpu["withheld"]["because"] for gpu in status["gpus"] if gpu["withheld"]]
    if any(gpu["stale"] for gpu in status["gpus"]):
        lines.append(f"WARNING: what is shown of the GPUs is old: {status['gpus_not_seen']}")
    lines += [
        f"{guest['run_id']} goes: {guest['leaves_because']}"
        for guest in status["guests"]
        if guest["leaves_because"]
    ]
    if status["terms"] is not None:
        lines += warnings(status["terms"])
    if vault_trouble:
        lines.append(f"WARNING: {vault_trouble}")
    if disk is not None and no_room:
        lines.append(f"WARNING: {disk['trouble']}")
    if status["disk_trouble"]:
        lines.append(f"WARNING: a restart of the agent would forget this state: {status['disk_trouble']}")
    return lines


def _every_gpu_withheld(status: Json) -> bool:
    """Taken back one by one, they are gone for guests as those of a machine that is taken back whole."""
    return bool(status["gpus"]) and all(gpu["withheld"] for gpu in status["gpus"])


def _told_of_you(signs: Json) -> list[str]:
    if signs["told"] is None:
        return []
    told = ", ".join(SIGNS.get(sign, sign) for sign in signs["told"]) or "nobody is seen here"
    return [f"The campus knows of you: {told}; never who. To tell it nothing: gpunion terms set signs=no"]


def _unsent(output: Json) -> str:
    size, folder = shown_size(output["size_bytes"]), shlex.quote(output["folder"])
    return (
        f"What {output['run_id']} made stays here until {output['until']}, since no place has room for it: "
        f"{size}. If you need that room: rm -r {folder}"
    )


def _kept(keeps: Json) -> list[str]:
    taken, limit = shown_size(keeps["used_bytes"]), shown_size(keeps["limit_bytes"])
    lines = [f"Checkpoints of others in {keeps['directory']}: {taken} of the {limit} you lend"]
    if not keeps["places"]:
        lines.append(
            "  The campus does not use it yet: its operator names this machine as a place "
            '([places.NAME], kind = "node")'
        )
    if keeps["trouble"]:
        lines.append(f"WARNING: {keeps['trouble']}")
    elif not keeps["open"]:
        lines.append("WARNING: its port could not be opened; the agent's log says why")
    return lines
