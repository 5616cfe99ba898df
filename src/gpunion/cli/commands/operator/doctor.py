"""`gpunion doctor`: what is missing here, and the command that mends it."""

from __future__ import annotations

import argparse
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from gpunion.cli.agent_socket import add_state_dir, state_dir
from gpunion.cli.checks import campus, machine, terms
from gpunion.cli.checks.finding import Finding, State, missing
from gpunion.cli.context import Context
from gpunion.cli.exits import ERROR, OK, Trouble
from gpunion.cli.output.screen import Table

if TYPE_CHECKING:
    from gpunion.agent.settings import Settings
    from gpunion.cli.campus import Campus

CONNECTS = True
JSON = """`{ok, findings: [{check, state, found, mend}]}`; `state` is `ok`, `warning` or `missing`, and `ok`
says that nothing is missing."""
EXAMPLES = ("gpunion doctor",)


def configure(parser: argparse.ArgumentParser) -> None:
    add_state_dir(parser)


def run(arguments: argparse.Namespace, context: Context) -> int:
    findings = _examine(arguments, context)
    healthy = all(finding.state is not State.MISSING for finding in findings)
    if context.screen.as_json:
        context.screen.data({"ok": healthy, "findings": [asdict(finding) for finding in findings]})
    else:
        rows = [[finding.check, finding.state.value, finding.found] for finding in findings]
        context.screen.table(Table(columns=("CHECK", "STATE", "FOUND"), rows=list(rows)))
        _tell_what_to_do(context, findings)
    return OK if healthy else ERROR


def _examine(arguments: argparse.Namespace, context: Context) -> list[Finding]:
    folder = state_dir(arguments, context)
    settings, trouble = _settings(folder, context)
    joined = settings is not None or trouble is not None
    needed = joined and not (settings is not None and settings.terms.allow_unsandboxed)
    systemd = machine.systemd_runs()
    runtime = "sandbox" if settings is None else settings.runtime
    findings = [
        machine.check_python(),
        machine.check_libraries(joined),
        machine.check_runtime(runtime, needed=needed),
        *machine.check_other_runtimes(runtime),
        machine.check_cgroup(systemd, machine.agent_process(folder)),
        machine.check_gpus(0 if settings is None else len(settings.gpus)),
        machine.check_state_dir(folder),
        machine.check_disk("disk", folder, lends=joined),
    ]
    if trouble is not None:
        findings.append(trouble)
    if settings is not None:
        findings.append(machine.check_agent(folder, systemd))
        findings += _logging_out(systemd)
        findings += terms.check_terms(folder, settings)
    heard, about = campus.check_coordinator(lambda: _way_to_campus(arguments, context, settings))
    findings += heard
    # A machine that has not joined need not share the folder: it can reach the vault through the coordinator.
    place = settings.vault if settings else Path(about["vault"]) if about else None
    if place is not None and (joined or place.is_dir()):
        findings.append(campus.check_vault(place, needed=joined, mark=_mark(folder)))
        if place.is_dir():
            findings.append(machine.check_disk("vault disk", place))
    return findings


def _logging_out(systemd: bool) -> list[Finding]:
    from gpunion.agent.machine.service import lingers

    uid = os.geteuid()
    return [machine.check_logging_out(lingers(uid))] if systemd and uid != 0 else []


def _way_to_campus(arguments: argparse.Namespace, context: Context, settings: Settings | None) -> Campus:
    """Where nobody has logged in, a machine that has joined asks as itself."""
    try:
        return context.campus(arguments)
    except Trouble:
        if settings is None:
            raise
        as_itself = {"url": settings.coordinator, "token": settings.credential()}
        return context.campus(argparse.Namespace(**{**vars(arguments), **as_itself}))


def _mark(folder: Path) -> str:
    try:
        from gpunion.agent.compose.runtime_files import AGENT_DIR, PLACES_FILE
        from gpunion.vault.opener import remembered_mark
    except ImportError:  # without the agent's libraries nobody lends here
        return ""
    return remembered_mark(folder / AGENT_DIR / PLACES_FILE)


def _settings(folder: Path, context: Context) -> tuple[Settings | None, Finding | None]:
    """The agent's settings where this machine has joined, or what is wrong with them."""
    from gpunion.agent.settings import SETTINGS_FILE, SettingsTrouble, load_settings

    if not (folder / SETTINGS_FILE).exists():
        return None, None
    try:
        settings = load_settings(folder, context.environment)
        settings.credential()
    except SettingsTrouble as trouble:
        what, _, mend = str(trouble).partition("Next: ")
        return None, missing("agent settings", what.strip(), mend or f"mend {folder / SETTINGS_FILE}")
    return settings, None


def _tell_what_to_do(context: Context, findings: list[Finding]) -> None:
    wrong = [finding for finding in findings if finding.state is not State.OK]
    if not wrong:
        context.screen.line("\nNothing is missing.")
        return
    context.screen.line("\nTo mend it:")
    for finding in wrong:
        context.screen.line(f"  {finding.check} ({finding.state.value}): {finding.mend}")
