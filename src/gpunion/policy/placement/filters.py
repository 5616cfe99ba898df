"""May this job run on this node? Each refusal is a reason."""

from __future__ import annotations

from gpunion.domain.image import Parcel
from gpunion.domain.job import Job
from gpunion.domain.models import is_model
from gpunion.domain.node import DiskRoom, Node, NodePhase
from gpunion.domain.place import CAMPUS
from gpunion.domain.reasons import Reason, Why, because
from gpunion.domain.resources import Gpu, Request
from gpunion.domain.snapshot import NodeView
from gpunion.domain.system_tier import UNTRIED, Tier, architecture, differing
from gpunion.domain.wording import lab_in_words

# Refusals that no waiting mends: more than the node has, or against its owner's standing terms.
FOR_GOOD = frozenset(
    {
        Why.TOO_FEW_GPUS,
        Why.TOO_LITTLE_VRAM,
        Why.WRONG_MODEL,
        Why.TOO_FEW_CPUS,
        Why.TOO_LITTLE_MEMORY,
        Why.LAB_NOT_ADMITTED,
        Why.PERSON_NOT_ADMITTED,
        Why.UNSANDBOXED,
        Why.NO_NETWORK_HERE,
        Why.NODE_LEFT,
        Why.NO_IMAGES_HERE,
        Why.IMAGE_NOT_ADMITTED,
        Why.IMAGE_TOO_LARGE,
        Why.CANNOT_DUMP,
    }
)

# Who comes for less time than this before a known end's notice would only come to leave.
LEAST_STAY_S = 60.0

# Asked of every node for every job that waits; naming a member of an enumeration takes longer than this.
_SHARING, _LEFT, _ROOMY = NodePhase.SHARING, NodePhase.LEFT, DiskRoom.FINE

_PHASES = {
    NodePhase.PAUSED: Why.NODE_PAUSED,
    NodePhase.RECLAIMING: Why.NODE_RECLAIMED,
    NodePhase.RECLAIMED: Why.NODE_RECLAIMED,
    NodePhase.SILENT: Why.NODE_SILENT,
}


def refusal(job: Job, view: NodeView, now_s: float) -> Reason | None:
    """The weightiest reason first: what never fits, then the owner's word, then what is free."""
    return (
        _never_fits(job, view)
        or _against_the_terms(job, view)
        or _never_whole(job, view.node)
        or _not_now(job, view, now_s)
        or _not_whole(job, view.node)
        or _not_free(job.request, view)
    )


def has_room(request: Request, view: NodeView) -> bool:
    """False: it is refused, whatever else there is to say. Cheap, for those who need no reason."""
    return (
        len(view.free_gpus) >= request.gpus
        and view.free_cpus >= request.cpus
        and view.free_memory_bytes >= request.memory_bytes
        and view.node.phase is _SHARING
        and not view.node.unheard
    )


def suitable(gpus: tuple[Gpu, ...], request: Request) -> tuple[Gpu, ...]:
    if not (request.models or request.exclude_models or request.vram_bytes or request.alike):
        return gpus  # most ask for any
    return tuple(gpu for gpu in gpus if _model_fits(gpu, request) and gpu.memory_bytes >= request.vram_bytes)


def _never_fits(job: Job, view: NodeView) -> Reason | None:
    node, request = view.node, job.spec.request
    capacity = node.facts.capacity
    if node.phase is _LEFT:
        return because(node.id, Why.NODE_LEFT)
    if len(capacity.gpus) < request.gpus:
        return because(node.id, Why.TOO_FEW_GPUS, has=len(capacity.gpus), needs=request.gpus)
    if request.models or request.exclude_models:
        of_model = [gpu for gpu in capacity.gpus if _model_fits(gpu, request)]
        if len(of_model) < request.gpus:
            models = ", ".join(sorted({gpu.model for gpu in capacity.gpus}))
            return because(node.id, Why.WRONG_MODEL, models=models)
    if request.vram_bytes and (has := len(suitable(node.facts.lent_gpus, request))) < request.gpus:
        most_bytes = max((gpu.memory_bytes for gpu in node.facts.lent_gpus), default=0)
        return because(
            node.id,
            Why.TOO_LITTLE_VRAM,
            has=has,
            needs=request.gpus,
            vram_bytes=request.vram_bytes,
            most_bytes=most_bytes,
        )
    if node.facts.lent_cpus < request.cpus:
        return because(node.id, Why.TOO_FEW_CPUS, has=node.facts.lent_cpus, needs=request.cpus)
    if view.lent_memory_bytes < request.memory_bytes:
        has, needs = view.lent_memory_bytes, request.memory_bytes
        return because(node.id, Why.TOO_LITTLE_MEMORY, has_bytes=has, needs_bytes=needs)
    return None


def _against_the_terms(job: Job, view: NodeView) -> Reason | None:
    facts = view.node.facts
    if not facts.terms.admits(job.spec.lab, job.spec.owner):
        if facts.terms.admits_lab(job.spec.lab):
            return because(view.node.id, Why.PERSON_NOT_ADMITTED, person=job.spec.owner)
        return because(view.node.id, Why.LAB_NOT_ADMITTED, lab=lab_in_words(job.spec.lab))
    if not facts.sandboxed and not facts.terms.allow_unsandboxed:
        return because(view.node.id, Why.UNSANDBOXED)
    if job.spec.request.network and not facts.terms.egress:
        return because(view.node.id, Why.NO_NETWORK_HERE)
    return None if job.image is None else _image_refused(job.image, job.image_barred, view.node)


def _image_refused(parcel: Parcel, barred: bool, node: Node) -> Reason | None:
    facts, name = node.facts, parcel.image.ref
    if not facts.takes_images:
        return because(node.id, Why.NO_IMAGES_HERE, runtime=facts.runtime)
    if not facts.terms.admits_image(parcel.image):
        return because(node.id, Why.IMAGE_NOT_ADMITTED, image=name)
    needs_bytes = 0 if parcel.archive is None else parcel.archive.size_bytes
    quota_bytes = facts.image_quota_bytes
    if quota_bytes is not None and needs_bytes > quota_bytes:
        return because(
            node.id, Why.IMAGE_TOO_LARGE, image=name, quota_bytes=quota_bytes, needs_bytes=needs_bytes
        )
    if barred:
        return because(node.id, Why.IMAGE_NOT_LISTED, image=name)
    return None


def _not_now(job: Job, view: NodeView, now_s: float) -> Reason | None:
    node = view.node
    if node.unheard:
        return because(node.id, Why.NODE_UNHEARD)
    phase = _PHASES.get(node.phase)
    if phase is not None:
        if phase is Why.NODE_RECLAIMED and node.not_lent_because:
            return because(node.id, Why.NOT_LENT_NOW, because=node.not_lent_because)
        return because(node.id, phase)
    if job.avoid and any(a.node_id == node.id and now_s < a.until_s for a in job.avoid):
        return because(node.id, Why.REFUSED_LATELY)
    if node.known_end_s is not None:
        left_s = node.known_end_s - now_s
        if left_s < node.facts.terms.notice_s + LEAST_STAY_S:
            return because(node.id, Why.ENDS_SOON, left_s=max(0.0, left_s))
    if not node.facts.reaches(job.spec.places):
        return because(node.id, Why.PLACE_NOT_REACHED, place=_place_for_people(job.spec.places))
    if node.facts.disk is not _ROOMY:
        return because(node.id, Why.DISK_FAILS_THERE if node.facts.disk_fails else Why.DISK_SHORT_THERE)
    limit = node.facts.terms.max_guests
    if view.guests >= limit:
        return because(node.id, Why.GUESTS_FULL, limit=limit)
    return None


def _place_for_people(places: tuple[str, ...]) -> str:
    return "the campus's vault" if not places or places[0] == CAMPUS else places[0]


def _never_whole(job: Job, node: Node) -> Reason | None:
    """Before what is so now: no waiting mends it."""
    here = node.facts.system
    if (job.tier is not Tier.SYSTEM and job.dump is None) or here.able or here == UNTRIED:
        return None
    return because(node.id, Why.CANNOT_DUMP, why_not=here.why_not)


def _not_whole(job: Job, node: Node) -> Reason | None:
    """Of a job that is saved whole, or was once, on a machine that may do that: could it be dumped there, and
    brought back from what it has?"""
    if job.tier is not Tier.SYSTEM and job.dump is None:
        return None
    here = node.facts.system
    if here == UNTRIED:
        return because(node.id, Why.DUMPING_UNTRIED)
    if job.dump is None:
        return None
    if job.dump.gpu and all(gpu.model != job.dump.gpu for gpu in node.facts.capacity.gpus):
        models = ", ".join(sorted({gpu.model for gpu in node.facts.capacity.gpus}))
        return because(node.id, Why.OTHER_GPU, here=models, there=job.dump.gpu)
    there = job.dump.kind
    if there == here.kind:
        return None
    if architecture(there) != architecture(here.kind):
        return because(
            node.id, Why.OTHER_ARCHITECTURE, here=architecture(here.kind), there=architecture(there)
        )
    if any(tried.kind == there and not tried.worked for tried in node.restores):
        return because(node.id, Why.RESTORE_FAILED_BEFORE, differing=differing(here.kind, there))
    return None


def _not_free(request: Request, view: NodeView) -> Reason | None:
    node = view.node
    free = len(suitable(view.free_gpus, request))
    if free < request.gpus:
        return _too_few_free(request, view, free)
    if view.free_cpus < request.cpus:
        return because(node.id, Why.TOO_FEW_FREE_CPUS, free=view.free_cpus, needs=request.cpus)
    if view.free_memory_bytes < request.memory_bytes:
        free, needs = view.free_memory_bytes, request.memory_bytes
        return because(node.id, Why.TOO_LITTLE_FREE_MEMORY, free_bytes=free, needs_bytes=needs)
    return None


def _too_few_free(request: Request, view: NodeView, free: int) -> Reason:
    """Where GPUs are missing because they are not lent, who waits for them is told by whom."""
    node, withheld = view.node, []
    if node.withheld:
        able = {gpu.index for gpu in suitable(node.facts.lent_gpus, request)}
        withheld = [gpu.because() for gpu in node.withheld if gpu.index in able]
    if not withheld:
        return because(node.id, Why.TOO_FEW_FREE_GPUS, free=free, needs=request.gpus)
    return because(node.id, Why.GPU_WITHHELD, free=free, needs=request.gpus, because="; ".join(withheld))


def _model_fits(gpu: Gpu, request: Request) -> bool:
    if request.alike and gpu.model != request.alike:
        return False
    if any(is_model(gpu.model, name) for name in request.exclude_models):
        return False
    return not request.models or any(is_model(gpu.model, name) for name in request.models)
