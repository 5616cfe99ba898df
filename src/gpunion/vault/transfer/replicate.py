"""Makes the places of a job alike, from desk to desk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gpunion.text import by_number
from gpunion.vault import manifests as manifest_format
from gpunion.vault.interfaces import VaultDesk
from gpunion.vault.manifest import KEEP_AT_LEAST, Manifest, NotYours, VaultFault
from gpunion.vault.replicas import Completed
from gpunion.vault.transfer.copying import LOST, copy_checkpoint

Order = tuple[int, int, tuple[str | int, ...]]  # as vaults sort checkpoints


@dataclass
class _Round:
    desks: dict[str, VaultDesk]
    sealed: dict[str, dict[str, bytes]]
    troubles: dict[str, str]
    newest: dict[str, Order] = field(default_factory=dict)  # of what a place has
    unreadable: dict[str, list[str]] = field(default_factory=dict)  # what a place lacks for that
    copied: list[str] = field(default_factory=list)
    sent_bytes: int = 0


class DeskReplicas:
    """Implements `vault.replicas.Replicas`."""

    def __init__(self, open_desk: Callable[[str], VaultDesk], *, keep: int = KEEP_AT_LEAST) -> None:
        """`keep`: how many of a job's newest are kept. A place that has a newer one has forgotten the rest,
        and does not get them back."""
        self._open_desk = open_desk
        self._keep = keep

    def complete(
        self,
        job_id: str,
        places: tuple[str, ...],
        *,
        pace: Callable[[int], None],
        cancelled: Callable[[], bool],
    ) -> Completed:
        found = self._look(job_id, places)
        every = _every(found)
        wanted = {manifest.checkpoint_id for manifest in every[-self._keep :]}
        for manifest in every:
            for place in found.desks:
                if manifest.checkpoint_id in found.sealed[place] or place in found.troubles:
                    continue
                newer = place not in found.newest or _order(manifest) > found.newest[place]
                if newer or manifest.checkpoint_id in wanted:
                    _bring(found, manifest, place, pace, cancelled)
        for place, details in found.unreadable.items():
            found.troubles.setdefault(place, "; ".join(details))
        return Completed(
            copied=tuple(found.copied), sent_bytes=found.sent_bytes, troubles=dict(found.troubles)
        )

    def _look(self, job_id: str, places: tuple[str, ...]) -> _Round:
        found = _Round({}, {}, {})
        for place in places:
            try:
                desk = self._open_desk(place)
                manifests = [(manifest_format.decode(data), data) for data in desk.sealed(job_id)]
            except VaultFault as fault:
                found.troubles[place] = str(fault)
                continue
            found.desks[place] = desk
            found.sealed[place] = {manifest.checkpoint_id: data for manifest, data in manifests}
            if manifests:
                found.newest[place] = max(_order(manifest) for manifest, _ in manifests)
        return found


def _every(found: _Round) -> list[Manifest]:
    """Oldest first."""
    every = {name: data for sealed in found.sealed.values() for name, data in sealed.items()}
    manifests = map(manifest_format.decode, every.values())
    return sorted(manifests, key=_order)


def _order(manifest: Manifest) -> Order:
    return manifest.epoch, manifest.step, by_number(manifest.checkpoint_id)


def _bring(
    found: _Round,
    manifest: Manifest,
    place: str,
    pace: Callable[[int], None],
    cancelled: Callable[[], bool],
) -> None:
    """A place that takes none is not asked again in this round; what no source can give is passed over."""
    details = []
    for source, sealed in found.sealed.items():
        data = sealed.get(manifest.checkpoint_id)
        if data is None:
            continue
        try:
            found.sent_bytes += copy_checkpoint(
                found.desks[source],
                found.desks[place],
                manifest.job_id,
                data,
                pace=pace,
                cancelled=cancelled,
            )
        except LOST as fault:
            details.append(f"{manifest.checkpoint_id} cannot be read in {source}: {fault}")
            continue
        except NotYours:
            return  # it is for the machine to bring that made it, or that runs the job now
        except VaultFault as fault:
            found.troubles[place] = str(fault)
            return
        found.copied.append(manifest.checkpoint_id)
        found.newest[place] = max(_order(manifest), found.newest.get(place, _order(manifest)))
        return
    found.unreadable.setdefault(place, []).extend(details)
