"""Into which of a job's places a save goes: the first that takes it.

A place without room, or one that goes away in the middle, passes the save on to the next, and is not tried
first again for a while: within a notice there is no time to find out twice.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from gpunion.agent.run_notes import RunNote
from gpunion.agent.world import World
from gpunion.domain.ids import CheckpointId
from gpunion.ports.vault import (
    CheckpointLabel,
    Manifest,
    VaultDenied,
    VaultFault,
    VaultFull,
    VaultUnavailable,
)

# The newest is restored; one more in case it proves unreadable; one more while a newer one is being sealed.
KEEP_CHECKPOINTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    note: RunNote
    directory: Path
    label: CheckpointLabel
    pace: Callable[[int], None]
    cancelled: Callable[[], bool]
    told: Callable[[int, int], None]
    keep: CheckpointId | None = None


@dataclass(frozen=True, slots=True)
class Sent:
    manifest: Manifest
    elsewhere: str = ""  # why it is not in the first of the job's places


@dataclass(slots=True)
class _Tries:
    passed: list[str] = field(default_factory=list)  # places that did not take it
    cleared: set[str] = field(default_factory=set)  # places where room was made


def send(world: World, sending: Sending) -> Sent:
    """Blocks. A VaultFault when no place takes it, which says what each of them said."""
    places, tries = sending.note.places, _Tries()
    while True:
        order = world.detours.in_order(places)
        elsewhere = world.detours.why_not_first(places)
        try:
            manifest = world.ship(
                sending.directory,
                sending.label,
                places=order,
                key=sending.note.key,
                pace=sending.pace,
                cancelled=sending.cancelled,
                told=sending.told,
            )
            # A place may be too full even for the fence before the upload: that is heard of only now.
            return Sent(manifest, elsewhere or world.detours.why_not_first(places))
        except VaultFull as fault:
            if fault.place not in tries.cleared:
                # Only now: looking for garbage reads the whole vault.
                tries.cleared.add(fault.place)
                with suppress(VaultFault, OSError):  # the next try finds out
                    _make_room(world, sending, (fault.place,) if fault.place else places)
            else:
                _pass_on(world, places, tries, fault)
        except (VaultUnavailable, VaultDenied) as fault:
            _pass_on(world, places, tries, fault)


def how_many_to_keep(world: World, note: RunNote, keep: CheckpointId | None) -> int:
    """Enough for all that it might go back to, alone or with its gang, which may not be among its newest.
    What is not there cannot be counted from: then all stay, until a later order names another."""
    if keep is None:
        return KEEP_CHECKPOINTS
    vault = world.vault_of(note.places, note.key)
    sealed = [manifest.checkpoint_id for manifest in vault.manifests(note.job_id)]
    newer = len(sealed) - (sealed.index(keep) if keep in sealed else 0)
    return max(KEEP_CHECKPOINTS, newer)


def _make_room(world: World, sending: Sending, places: tuple[str, ...]) -> None:
    note, vault = sending.note, world.vault_of(places)
    if sending.keep is not None or not note.in_gang:
        vault.forget(note.job_id, how_many_to_keep(world, note, sending.keep))
    vault.collect_garbage(in_need=True)


def _pass_on(world: World, places: tuple[str, ...], tries: _Tries, fault: VaultFault) -> None:
    """To the next place, or the fault where there is none left."""
    if not fault.place:
        raise fault
    tries.passed.append(fault.place)
    world.detours.avoid(fault.place, str(fault))
    if {*tries.passed} >= {*places} or tries.passed.count(fault.place) > 1:
        raise type(fault)(world.detours.why(places)) from fault
