"""Which commands there are. Names and one-line summaries only, so that help costs no import of a command."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module

from gpunion.cli.context import Context
from gpunion.cli.exits import Trouble

# The evaluation is no part of what a machine that lends is given, so it is loaded by name alone.
LAB = "gpunion.lab"


class Group(StrEnum):
    GUEST = "Guest: run your work on other people's GPUs"
    SESSION = "Session: work by hand on other people's GPUs"
    OWNER = "Owner: lend this machine, and have it back at once"
    OPERATOR = "Operator: keep a campus running"
    FIGURES = "Figures: who lends, who uses, and what became of the work"
    STUDY = "Study: try it on one machine, or on a simulated campus"


@dataclass(frozen=True, slots=True)
class Command:
    """`module` of `gpunion.cli.commands`, or of `gpunion.lab` by its whole name, has `configure(parser)`,
    `run(arguments, context)` and says under `JSON` what --json prints (None: it has no --json)."""

    name: str
    group: Group
    summary: str
    module: str

    @property
    def in_lab(self) -> bool:
        return self.module.startswith(LAB)

    def load(self) -> CommandModule:
        try:
            module = import_module(self.module if self.in_lab else f"gpunion.cli.commands.{self.module}")
        except ModuleNotFoundError as error:
            if not self.in_lab or error.name is None or not error.name.startswith(LAB):
                raise
            raise _lab_is_absent(self.name) from error
        return CommandModule(
            configure=module.configure,
            run=module.run,
            json_shape=module.JSON,
            examples=getattr(module, "EXAMPLES", ()),
            connects=getattr(module, "CONNECTS", False),
            takes_command=getattr(module, "TAKES_COMMAND", False),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandModule:
    configure: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace, Context], int]
    json_shape: str | None
    examples: tuple[str, ...]
    connects: bool  # needs a coordinator: gets --url and --token
    takes_command: bool  # what follows `--` is a job's command


COMMANDS: tuple[Command, ...] = (
    Command("run", Group.GUEST, "run a command on a lent GPU and follow it", "guest.run"),
    Command("submit", Group.GUEST, "hand in a job and come back later", "guest.submit"),
    Command("ps", Group.GUEST, "list jobs", "guest.jobs"),
    Command("logs", Group.GUEST, "show what a job printed", "guest.logs"),
    Command("why", Group.GUEST, "tell a job's story: why it waits, moved or ended", "guest.why"),
    Command("windows", Group.GUEST, "show what is free for a while, and who bids for it", "guest.windows"),
    Command("bids", Group.GUEST, "change what a job in windows bids for", "guest.bids"),
    Command("stop", Group.GUEST, "cancel a job", "guest.stop"),
    Command("cp", Group.GUEST, "fetch what a job has made", "guest.cp"),
    Command("checkpoints", Group.GUEST, "list a job's checkpoints", "guest.checkpoints"),
    Command("notebook", Group.SESSION, "open JupyterLab on a lent GPU in your browser", "sessions.notebook"),
    Command("ssh", Group.SESSION, "enter a session by ssh; scp, rsync and editors too", "sessions.ssh"),
    Command("attach", Group.SESSION, "open a terminal inside a job that runs", "sessions.attach"),
    Command("port", Group.SESSION, "reach a port of a job at a port of this machine", "sessions.port"),
    Command("sync", Group.SESSION, "fetch a session's files as they are now", "sessions.sync"),
    Command("sessions", Group.SESSION, "list sessions", "sessions.listing"),
    Command("sessions end", Group.SESSION, "end a session, and keep what it has", "sessions.ending"),
    Command("join", Group.OWNER, "make this machine part of a campus", "owner.join"),
    Command("agent", Group.OWNER, "lend: run this machine's agent in the foreground", "owner.agent"),
    Command("agent install", Group.OWNER, "lend from every boot on, as a service", "owner.agent_install"),
    Command("agent uninstall", Group.OWNER, "take that service away", "owner.agent_uninstall"),
    Command("status", Group.OWNER, "who is on this machine, and how to stop them", "owner.status"),
    Command("pause", Group.OWNER, "take no new guests", "owner.lending"),
    Command("resume", Group.OWNER, "lend again", "owner.resume"),
    Command("reclaim", Group.OWNER, "have the machine back after a notice", "owner.reclaim"),
    Command("terms", Group.OWNER, "what you grant: hours, caps, who may come", "owner.terms"),
    Command("terms set", Group.OWNER, "change your terms; they count at once", "owner.terms_set"),
    Command("terms edit", Group.OWNER, "change your terms in your editor", "owner.terms_edit"),
    Command("kill", Group.OWNER, "have the machine back now; needs neither agent nor network", "owner.kill"),
    Command("leave", Group.OWNER, "leave the campus, without a trace", "owner.leave"),
    Command(
        "coordinator", Group.OPERATOR, "run a campus's coordinator in the foreground", "operator.coordinator"
    ),
    Command(
        "coordinator token",
        Group.OPERATOR,
        "make a one-time token to join with",
        "operator.coordinator_token",
    ),
    Command("nodes", Group.OPERATOR, "list the machines of the campus", "operator.nodes"),
    Command("nodes rm", Group.OPERATOR, "take a machine that is gone off the list", "operator.nodes_rm"),
    Command(
        "nodes accept", Group.OPERATOR, "let an isolated machine have guests again", "operator.nodes_accept"
    ),
    Command(
        "nodes hazard", Group.OPERATOR, "show when machines are likely wanted back", "operator.nodes_hazard"
    ),
    Command(
        "quotas", Group.OPERATOR, "show who holds, uses and lends how much, and who may", "operator.quotas"
    ),
    Command(
        "quotas set", Group.OPERATOR, "limit the GPUs a user or a lab may hold at once", "operator.quotas_set"
    ),
    Command("quotas rm", Group.OPERATOR, "lift a quota", "operator.quotas_rm"),
    Command("images ls", Group.OPERATOR, "list the images jobs may run in", "operator.images"),
    Command("images add", Group.OPERATOR, "let jobs run in an image", "operator.images_add"),
    Command("images rm", Group.OPERATOR, "start nobody in an image any more", "operator.images_rm"),
    Command(
        "environments ls",
        Group.OPERATOR,
        "list the sets of packages jobs may name",
        "operator.environments.listing",
    ),
    Command(
        "environments add",
        Group.OPERATOR,
        "publish a set of packages under a name",
        "operator.environments.add",
    ),
    Command(
        "environments rm",
        Group.OPERATOR,
        "start nobody with a set of packages any more",
        "operator.environments.remove",
    ),
    Command(
        "places",
        Group.OPERATOR,
        "list where checkpoints can be kept, and who reaches it",
        "operator.locations",
    ),
    Command(
        "places accept",
        Group.OPERATOR,
        "take a folder that was emptied on purpose as it is",
        "operator.places_accept",
    ),
    Command(
        "doctor",
        Group.OPERATOR,
        "find what is missing on this machine, and how to mend it",
        "operator.doctor",
    ),
    Command("vault ls", Group.OPERATOR, "list what a vault keeps", "operator.vault"),
    Command(
        "vault verify", Group.OPERATOR, "read and check every checkpoint of a vault", "operator.vault_verify"
    ),
    Command(
        "vault repair",
        Group.OPERATOR,
        "mend a vault, or take out of view what is lost",
        "operator.vault_repair",
    ),
    Command("top", Group.FIGURES, "the campus as it is, drawn anew every two seconds", "figures.top"),
    Command("usage", Group.FIGURES, "who used and lent how much, and what it came to", "figures.usage"),
    Command("usage gpus", Group.FIGURES, "how busy, full and hot GPUs have been", "figures.usage_gpus"),
    Command(
        "usage plan",
        Group.FIGURES,
        "simulate the past again with machines added or taken away",
        "gpunion.lab.commands.usage_plan",
    ),
    Command("login", Group.OPERATOR, "remember a coordinator's address and token", "operator.login"),
    Command("sim run", Group.STUDY, "run one scenario in the simulator", "study.sim"),
    Command(
        "sim fuzz", Group.STUDY, "run many random scenarios and look for broken promises", "study.sim_fuzz"
    ),
    Command("sim scenarios", Group.STUDY, "list the scenarios at hand", "study.sim_scenarios"),
    Command(
        "sim report",
        Group.STUDY,
        "compare all policies on a campus from public traces",
        "gpunion.lab.commands.report",
    ),
    Command(
        "hazard fit",
        Group.STUDY,
        "learn from a trace when machines are taken back",
        "gpunion.lab.commands.hazard",
    ),
    Command(
        "hazard score", Group.STUDY, "score how well that is foretold", "gpunion.lab.commands.hazard_score"
    ),
    Command("demo", Group.STUDY, "see a job reclaimed, moved, killed, recovered and finished", "study.demo"),
)


def find(words: list[str]) -> tuple[Command, list[str]] | None:
    """The command with the longest name that the words begin with, and the words after it."""
    by_name = {command.name: command for command in COMMANDS}
    for length in (2, 1):
        command = by_name.get(" ".join(words[:length]))
        if command is not None and len(words) >= length:
            return command, words[length:]
    return None


def _lab_is_absent(name: str) -> Trouble:
    return Trouble(
        f"gpunion {name} is not installed here",
        why="a coordinator hands out gpunion without its evaluation, which machines that lend do not need",
        next_step="run it where gpunion was installed from a checkout or from the file of its make wheel",
    )
