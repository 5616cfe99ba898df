"""Getting a guest's state out: a cut is set aside, then sealed in the vault at the pace that was granted."""

from __future__ import annotations

import errno
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from gpunion.agent.checkpoints.restore import APP_TIER, CHECKPOINT_PART, OUTPUT_PART, OUTPUT_TIER
from gpunion.agent.checkpoints.whole_guest import dump_place
from gpunion.agent.dependencies import World
from gpunion.agent.machine.caps import both
from gpunion.agent.program.messages import SavedMarker, read_saved
from gpunion.agent.run_records.notes import RunNote
from gpunion.domain.ids import CheckpointId
from gpunion.domain.jobs.checkpoint import CheckpointTrouble
from gpunion.domain.protocol.effects import ShipCheckpoint
from gpunion.domain.protocol.events import CheckpointNotShipped, CheckpointShipped, OutputShipped
from gpunion.domain.protocol.frames import SaveStage
from gpunion.domain.system_tier import Tier
from gpunion.limits import readable
from gpunion.vault.manifest import (
    BadManifest,
    CheckpointLabel,
    CheckpointTorn,
    LocalDiskTrouble,
    Manifest,
    OldEpoch,
    ShipCancelled,
    VaultDenied,
    VaultFault,
    VaultFull,
    VaultUnavailable,
)
from gpunion.vault.transfer.snapshot import cut, make_readable, remove_links_that_lead_outside

# A vault that is away or full for a while must not cost a finished job its result: whoever looks after it
# gets as long as for a last save (`engine.agent.saves.OUT_OF_TOUCH_PATIENCE_S`).
NOT_SAVED = "its output could not be saved"
OUTPUT_PATIENCE_S = 3600.0
OUTPUT_WAIT_S = 2.0
OUTPUT_WAIT_MAX_S = 30.0
LINKS_NAMED = 5
DETAIL_LIMIT_CHARS = 500  # of what places say, in a report
# Longer sleeps would make a cancelled upload linger.
PACE_STEP_S = 0.2


class Cancelled:
    """Asked for from the loop, looked at by the thread that ships."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def __call__(self) -> bool:
        return self._event.is_set()

    def ask(self) -> None:
        self._event.set()

    def wait(self, seconds: float) -> None:
        self._event.wait(seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shipment:
    effect: ShipCheckpoint
    note: RunNote
    still: bool  # nothing of the guest writes any more
    cancelled: Cancelled


def ship_checkpoint(world: World, shipment: Shipment) -> CheckpointShipped | CheckpointNotShipped:
    """Blocks; called from a thread."""
    effect, note = shipment.effect, shipment.note
    try:
        sent = _ship_cut(world, shipment) if effect.tier is Tier.APP else _ship_dump(world, shipment)
    except (VaultFault, OSError) as fault:
        return CheckpointNotShipped(
            run_id=note.run_id,
            checkpoint_id=effect.checkpoint_id,
            trouble=trouble_of(fault),
            detail=str(fault)[:DETAIL_LIMIT_CHARS],
        )
    finally:
        shutil.rmtree(_place(world, note), ignore_errors=True)
        world.saves.clear(note.run_id, effect.checkpoint_id)
    _tidy_up(world, note, effect.keep)
    world.replicate(note.job_id, note.places)
    return CheckpointShipped(
        run_id=note.run_id,
        checkpoint_id=effect.checkpoint_id,
        step=effect.step,
        progress=effect.progress,
        size_bytes=sent.manifest.total_bytes,
        shipped_bytes=sent.manifest.new_bytes,
        elsewhere=sent.elsewhere[:DETAIL_LIMIT_CHARS],
    )


def ship_output(
    world: World, note: RunNote, step: int, keep: CheckpointId | None, cancelled: Cancelled
) -> OutputShipped:
    """Blocks; called from a thread, after the guest is gone. Files are named as in the output directory."""
    output_id = output_of(note)
    left_out = ""
    shelf = None if note.in_gang else world.outputs  # without one of them all members run again
    if shelf is not None and (kept := shelf.kept(note.run_id)):
        return OutputShipped(run_id=note.run_id, output=None, detail=NOT_SAVED, kept=kept)  # before a restart
    try:
        make_readable(note.paths.output_dir)
        left_out = _without(remove_links_that_lead_outside(note.paths.output_dir))
        if not any(note.paths.output_dir.iterdir()):
            return OutputShipped(run_id=note.run_id, output=None, left_out=left_out)
        sent = _sent_in_the_end(world, note, output_label(note, step), keep, cancelled)
        world.replicate(note.job_id, note.places)
        output = CheckpointId(sent.manifest.checkpoint_id)
        return OutputShipped(run_id=note.run_id, output=output, left_out=left_out)
    except (VaultFault, OSError) as fault:
        return OutputShipped(
            run_id=note.run_id,
            output=None,
            detail=f"{NOT_SAVED}: {fault}",
            hopeless=isinstance(fault, BadManifest) and not fault.temporary,
            left_out=left_out,
            kept="" if shelf is None or cancelled() or not _may_pass(fault) else shelf.keep(note, step),
        )
    finally:
        world.saves.clear(note.run_id, output_id)


def output_of(note: RunNote) -> CheckpointId:
    return CheckpointId(f"{note.run_id}-output")


def output_label(note: RunNote, step: int) -> CheckpointLabel:
    return _label(note, output_of(note), step=step, progress=1.0, tier=OUTPUT_TIER)


def _may_pass(fault: VaultFault | OSError) -> bool:
    return isinstance(fault, VaultFault) and fault.temporary


def _sent_in_the_end(
    world: World, note: RunNote, label: CheckpointLabel, keep: CheckpointId | None, cancelled: Cancelled
) -> Sent:
    until_s, wait_s = time.monotonic() + OUTPUT_PATIENCE_S, OUTPUT_WAIT_S
    pace = pace_of(0.0, cancelled)
    while True:
        try:
            return _send(world, note, note.paths.output_dir, label, pace, cancelled, keep)
        except VaultFault as fault:
            if not fault.temporary or cancelled() or time.monotonic() >= until_s:
                raise
            trouble, detail = trouble_of(fault).value, str(fault)[:DETAIL_LIMIT_CHARS]
            world.saves.not_taken(note.run_id, output_of(note), trouble, detail)
        cancelled.wait(wait_s)
        wait_s = min(2 * wait_s, OUTPUT_WAIT_MAX_S)


def _without(links: list[str]) -> str:
    if not links:
        return ""
    more = "" if len(links) <= LINKS_NAMED else f" and {len(links) - LINKS_NAMED} more"
    named = readable(", ".join(links[:LINKS_NAMED]))[:DETAIL_LIMIT_CHARS]
    return f"left out of its output, being links that lead outside of it: {named}{more}"


def trouble_of(fault: VaultFault | OSError) -> CheckpointTrouble:
    match fault:
        case OldEpoch():
            return CheckpointTrouble.OLD_EPOCH
        case CheckpointTorn():
            return CheckpointTrouble.TORN
        case BadManifest() if not fault.temporary:
            return CheckpointTrouble.UNFIT
        case ShipCancelled():
            return CheckpointTrouble.SUPERSEDED
        case VaultFull():
            return CheckpointTrouble.VAULT_FULL
        case LocalDiskTrouble(no_room=True) | OSError(errno=errno.ENOSPC | errno.EDQUOT):
            return CheckpointTrouble.DISK_FULL
        case LocalDiskTrouble():
            return CheckpointTrouble.DISK_FAILED
        case VaultDenied():
            return CheckpointTrouble.VAULT_DENIED
        case _:
            return CheckpointTrouble.VAULT_UNAVAILABLE


def _ship_cut(world: World, shipment: Shipment) -> Sent:
    effect, note = shipment.effect, shipment.note
    world.saves.say(note.run_id, effect.checkpoint_id, SaveStage.PACKING)
    marker = _marker(world, note, effect.checkpoint_id)
    place = _place(world, note)
    files = None if marker is None else marker.files
    still, cancelled = shipment.still, shipment.cancelled
    # Files that a program names it leaves alone until two saves later: that is the contract.
    left_alone = still or files is not None
    cut(
        note.paths.checkpoint_dir, place / CHECKPOINT_PART, files=files, still=left_alone, cancelled=cancelled
    )
    # Neither a log that grows nor a link that leads outside must cost it its saves.
    output = note.paths.output_dir
    cut(output, place / OUTPUT_PART, files=None, still=still, cancelled=cancelled, output=True)
    label = _label(note, effect.checkpoint_id, step=effect.step, progress=effect.progress, tier=APP_TIER)
    pace = pace_of(effect.rate_bps, cancelled)
    return _send(world, note, place, label, pace, cancelled, effect.keep)


def _ship_dump(world: World, shipment: Shipment) -> Sent:
    """Set aside already, while the guest stood still. Kept until it is durable: there is no second one."""
    effect, note, cancelled = shipment.effect, shipment.note, shipment.cancelled
    place = dump_place(world, note.run_id, effect.checkpoint_id)
    if not place.is_dir():
        raise CheckpointTorn(f"the dump {effect.checkpoint_id} is not there any more")
    label = _label(note, effect.checkpoint_id, step=effect.step, progress=effect.progress, tier=effect.tier)
    pace = pace_of(effect.rate_bps, cancelled)
    sent = _send(world, note, place, label, pace, cancelled, effect.keep)
    shutil.rmtree(place, ignore_errors=True)
    return sent


def _send(
    world: World,
    note: RunNote,
    directory: Path,
    label: CheckpointLabel,
    pace: Callable[[int], None],
    cancelled: Cancelled,
    keep: CheckpointId | None,
) -> Sent:
    pace = both(pace, world.caps, cancelled)
    sending = Sending(
        note=note,
        directory=directory,
        label=label,
        pace=pace,
        cancelled=cancelled,
        told=world.saves.sending(note.run_id, CheckpointId(label.checkpoint_id)),
        keep=keep,
    )
    return send(world, sending)


def _tidy_up(world: World, note: RunNote, keep: CheckpointId | None) -> None:
    try:
        world.vault_of(note.places).forget(note.job_id, how_many_to_keep(world, note, keep))
    except (VaultFault, OSError):
        return  # it costs space, no work; the next save tries again


def _marker(world: World, note: RunNote, checkpoint_id: str) -> SavedMarker | None:
    marker = read_saved(world.control, note.paths.control_dir)
    return marker if marker is not None and marker.id == checkpoint_id else None


def _place(world: World, note: RunNote) -> Path:
    return world.spool(note.run_id) / "cut"


def _label(note: RunNote, checkpoint_id: str, *, step: int, progress: float, tier: str) -> CheckpointLabel:
    return CheckpointLabel(
        checkpoint_id=checkpoint_id,
        job_id=note.job_id,
        epoch=note.epoch,
        step=step,
        progress=progress,
        tier=tier,
        created_s=time.time(),
    )


def pace_of(rate_bps: float, cancelled: Cancelled) -> Callable[[int], None]:
    """Bits per second, averaged over the upload; 0 is no bound."""
    began_s = time.monotonic()
    sent_bits = 0

    def after(sent_bytes: int) -> None:
        nonlocal sent_bits
        sent_bits += 8 * sent_bytes
        while rate_bps > 0 and not cancelled():
            ahead_s = sent_bits / rate_bps - (time.monotonic() - began_s)
            if ahead_s <= 0:
                return
            cancelled.wait(min(ahead_s, PACE_STEP_S))

    return after


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
