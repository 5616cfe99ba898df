"""Which commands there are. Names and one-line summaries only, so that help costs no import of a command."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module

from gpunion.cli.context import Context


class Group(StrEnum):
    GUEST = "Guest: run your work on other people's GPUs"
    OWNER = "Owner: lend this machine, and have it back at once"
    OPERATOR = "Operator: keep a campus running"
    STUDY = "Study: try it on one machine, or on a simulated campus"


@dataclass(frozen=True, slots=True)
class Command:
    """`module` of `gpunion.cli.commands` has `configure(parser)`, `run(arguments, context)` and says
    under `JSON` what --json prints (None: it has no --json)."""

    name: str
    group: Group
    summary: str
    module: str

    def load(self) -> CommandModule:
        module = import_module(f"gpunion.cli.commands.{self.module}")
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
    Command("run", Group.GUEST, "run a command on a lent GPU and follow it", "run"),
    Command("submit", Group.GUEST, "hand in a job and come back later", "submit"),
    Command("ps", Group.GUEST, "list jobs", "ps"),
    Command("logs", Group.GUEST, "show what a job printed", "logs"),
    Command("why", Group.GUEST, "tell a job's story: why it waits, moved or ended", "why"),
    Command("stop", Group.GUEST, "cancel a job", "stop"),
    Command("cp", Group.GUEST, "fetch what a job has made", "cp"),
    Command("checkpoints", Group.GUEST, "list a job's checkpoints", "checkpoints"),
    Command("join", Group.OWNER, "make this machine part of a campus", "join"),
    Command("agent", Group.OWNER, "lend: run this machine's agent in the foreground", "agent"),
    Command("agent install", Group.OWNER, "lend from every boot on, as a service", "agent_install"),
    Command("agent uninstall", Group.OWNER, "take that service away", "agent_uninstall"),
    Command("status", Group.OWNER, "who is on this machine, and how to stop them", "status"),
    Command("pause", Group.OWNER, "take no new guests", "pause"),
    Command("resume", Group.OWNER, "lend again", "resume"),
    Command("reclaim", Group.OWNER, "have the machine back after a notice", "reclaim"),
    Command("terms", Group.OWNER, "what you grant: hours, caps, who may come", "terms"),
    Command("terms set", Group.OWNER, "change your terms; they count at once", "terms_set"),
    Command("terms edit", Group.OWNER, "change your terms in your editor", "terms_edit"),
    Command("kill", Group.OWNER, "have the machine back now; needs neither agent nor network", "kill"),
    Command("leave", Group.OWNER, "leave the campus, without a trace", "leave"),
    Command("coordinator", Group.OPERATOR, "run a campus's coordinator in the foreground", "coordinator"),
    Command("coordinator token", Group.OPERATOR, "make a one-time token to join with", "coordinator_token"),
    Command("nodes", Group.OPERATOR, "list the machines of the campus", "nodes"),
    Command("nodes rm", Group.OPERATOR, "take a machine that is gone off the list", "nodes_rm"),
    Command("nodes hazard", Group.OPERATOR, "show when machines are likely wanted back", "nodes_hazard"),
    Command("quotas", Group.OPERATOR, "show who holds, uses and lends how much, and who may", "quotas"),
    Command("quotas set", Group.OPERATOR, "limit the GPUs a user or a lab may hold at once", "quotas_set"),
    Command("quotas rm", Group.OPERATOR, "lift a quota", "quotas_rm"),
    Command("images ls", Group.OPERATOR, "list the images jobs may run in", "images_ls"),
    Command("images add", Group.OPERATOR, "let jobs run in an image", "images_add"),
    Command("images rm", Group.OPERATOR, "start nobody in an image any more", "images_rm"),
    Command("places", Group.OPERATOR, "list where checkpoints can be kept, and who reaches it", "places"),
    Command(
        "places accept", Group.OPERATOR, "take a folder that was emptied on purpose as it is", "places_accept"
    ),
    Command("doctor", Group.OPERATOR, "find what is missing on this machine, and how to mend it", "doctor"),
    Command("vault ls", Group.OPERATOR, "list what a vault keeps", "vault_ls"),
    Command("vault verify", Group.OPERATOR, "read and check every checkpoint of a vault", "vault_verify"),
    Command("vault repair", Group.OPERATOR, "mend a vault, or take out of view what is lost", "vault_repair"),
    Command("login", Group.OPERATOR, "remember a coordinator's address and token", "login"),
    Command("sim run", Group.STUDY, "run one scenario in the simulator", "sim_run"),
    Command("sim fuzz", Group.STUDY, "run many random scenarios and look for broken promises", "sim_fuzz"),
    Command("sim scenarios", Group.STUDY, "list the scenarios at hand", "sim_scenarios"),
    Command("sim report", Group.STUDY, "compare all policies on a campus from public traces", "sim_report"),
    Command("hazard fit", Group.STUDY, "learn from a trace when machines are taken back", "hazard_fit"),
    Command("hazard score", Group.STUDY, "score how well that is foretold", "hazard_score"),
    Command("demo", Group.STUDY, "see a job reclaimed, moved, killed, recovered and finished", "demo"),
)


def find(words: list[str]) -> tuple[Command, list[str]] | None:
    """The command with the longest name that the words begin with, and the words after it."""
    by_name = {command.name: command for command in COMMANDS}
    for length in (2, 1):
        command = by_name.get(" ".join(words[:length]))
        if command is not None and len(words) >= length:
            return command, words[length:]
    return None
