"""May this job run on this node? Each refusal is a reason."""

from __future__ import annotations

from gpunion.domain.cuda_requirement import first_words, runs_here
from gpunion.domain.gpu_models import is_model
from gpunion.domain.image import Parcel
from gpunion.domain.jobs.job import Job
from gpunion.domain.nodes.node import CAMPUS, DiskRoom, Node, NodePhase
from gpunion.domain.nodes.node_view import NodeView
from gpunion.domain.reasons.reason import Reason, Why, because
from gpunion.domain.reasons.wording import lab_in_words
from gpunion.domain.resources import Gpu, Request
from gpunion.domain.system_tier import UNTRIED, Tier, architecture, differing
from gpunion.domain.version_ranges import distance, is_within

# Refusals that no waiting mends: more than the node has, or against its owner's standing terms.
FOR_GOOD = frozenset(
    {
        Why.TOO_FEW_GPUS,
        Why.TOO_LITTLE_VRAM,
        Why.WRONG_MODEL,
        Why.OTHER_CAPABILITY,
        Why.CAPABILITY_UNKNOWN,
        Why.OTHER_CUDA,
        Why.CUDA_UNKNOWN,
        Why.IMAGE_NEEDS_CUDA,
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
        Why.SLICES_APART,
        Why.SLICE_NOT_DUMPED,
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
        or not_now(job, view, now_s)
        or _not_whole(job, view.node)
        or _not_free(job.request, view, now_s)
    )


def has_room(request: Request, view: NodeView) -> bool:
    """False: it is refused, whatever else there is to say. Cheap, for those who need no reason."""
    return (
        len(view.free_gpus) >= request.gpus
        and view.free_cpus >= request.cpus
        and view.free_memory_bytes >= request.memory_bytes
        and view.node.phase is _SHARING
        and not view.node.unheard
        and not view.node.isolated_because
    )


def suitable(gpus: tuple[Gpu, ...], request: Request) -> tuple[Gpu, ...]:
    if not request.takes_slices:
        gpus = tuple(gpu for gpu in gpus if not gpu.card)
    of_kind = request.models or request.exclude_models or request.alike
    if not (of_kind or request.vram_bytes or request.compute_capability or request.cuda):
        return gpus  # most ask for any
    return tuple(
        gpu
        for gpu in gpus
        if _model_fits(gpu, request)
        and gpu.memory_bytes >= request.vram_bytes
        and _runs(gpu.compute_capability, request.compute_capability)
        and _runs(gpu.cuda, request.cuda)
    )


def _never_fits(job: Job, view: NodeView) -> Reason | None:
    node, request = view.node, job.spec.request
    capacity = node.facts.capacity
    if node.phase is _LEFT:
        return because(node.id, Why.NODE_LEFT)
    if len(capacity.gpus) < request.gpus:
        return because(node.id, Why.TOO_FEW_GPUS, has=len(capacity.gpus), needs=request.gpus)
    if (slices := sum(1 for gpu in capacity.gpus if gpu.card)) and not job.request.takes_slices:
        if len(capacity.gpus) - slices < request.gpus:
            why = Why.SLICES_APART if request.gpus > 1 else Why.SLICE_NOT_DUMPED
            return because(node.id, why, slices=slices, needs=request.gpus)
    if request.models or request.exclude_models:
        of_model = [gpu for gpu in capacity.gpus if _model_fits(gpu, request)]
        if len(of_model) < request.gpus:
            models = ", ".join(sorted({gpu.model for gpu in capacity.gpus}))
            return because(node.id, Why.WRONG_MODEL, models=models)
    if (request.compute_capability or request.cuda) and (refused := _other_version(node, request)):
        return refused
    if job.image is not None and request.gpus and (refused := _image_does_not_run(job.image, node, request)):
        return refused
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


def _other_version(node: Node, request: Request) -> Reason | None:
    """Of its GPUs of a wanted model: too few can run what the program was built for."""
    gpus = tuple(gpu for gpu in node.facts.capacity.gpus if _model_fits(gpu, request))
    for asked, of, unknown, other in (
        (request.compute_capability, _capability, Why.CAPABILITY_UNKNOWN, Why.OTHER_CAPABILITY),
        (request.cuda, _cuda, Why.CUDA_UNKNOWN, Why.OTHER_CUDA),
    ):
        if sum(_runs(of(gpu), asked) for gpu in gpus) >= request.gpus:
            continue
        known = {of(gpu) for gpu in gpus} - {""}
        if not known:
            return because(node.id, unknown, asked=asked, mend=_mend(gpus, unknown))
        # What is nearest comes first: that is the one whose owner may be asked.
        has = ", ".join(sorted(known, key=lambda version: (distance(version, asked), version)))
        models = ", ".join(sorted({gpu.model for gpu in gpus}))
        facts = {"models": models} if other is Why.OTHER_CAPABILITY else {}
        return because(node.id, other, asked=asked, has=has, **facts)
    return None


def _image_does_not_run(parcel: Parcel, node: Node, request: Request) -> Reason | None:
    requires = "" if parcel.archive is None else parcel.archive.requires
    gpus = node.facts.capacity.gpus
    if not requires or sum(runs_here(requires, gpu) for gpu in gpus) >= request.gpus:
        return None
    asked, has = first_words(requires), ", ".join(sorted({gpu.cuda for gpu in gpus} - {""}))
    if not has:
        return because(node.id, Why.CUDA_UNKNOWN, asked=asked, mend=_mend(gpus, Why.CUDA_UNKNOWN))
    return because(node.id, Why.IMAGE_NEEDS_CUDA, asked=asked, has=has, image=parcel.image.name)


def _mend(gpus: tuple[Gpu, ...], unknown: Why) -> str:
    if not all(gpu.declared for gpu in gpus):
        return "update its NVIDIA driver, which does not say"
    key = 'compute_capability = "8.6"' if unknown is Why.CAPABILITY_UNKNOWN else 'cuda = "12.4"'
    return f"write what is true into agent.toml, under [[gpu]]: {key}"


def _capability(gpu: Gpu) -> str:
    return gpu.compute_capability


def _cuda(gpu: Gpu) -> str:
    return gpu.cuda


def _runs(version: str, asked: str) -> bool:
    return not asked or is_within(version, asked)


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
    if job.spec.session is not None and not facts.terms.sessions:
        return because(view.node.id, Why.NO_SESSIONS_HERE)
    if job.packages is not None and job.packages_barred:
        return because(view.node.id, Why.ENVIRONMENT_NOT_PUBLISHED, environment=job.packages.name)
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


def not_now(job: Job, view: NodeView, now_s: float) -> Reason | None:
    """Why nobody new comes there at the moment, whatever else is free."""
    node = view.node
    if node.isolated_because:
        return because(node.id, Why.NODE_ISOLATED, node=node.id, because=node.isolated_because)
    if node.unheard:
        return because(node.id, Why.NODE_UNHEARD)
    phase = _PHASES.get(node.phase)
    if phase is not None:
        if phase is Why.NODE_RECLAIMED and node.not_lent_because:
            return because(node.id, Why.NOT_LENT_NOW, because=node.not_lent_because)
        return because(node.id, phase)
    until_s = [a.until_s for a in job.avoid if a.node_id == node.id] if job.avoid else []
    avoided_s = max(until_s, default=now_s) - now_s
    if avoided_s > 0:
        return because(node.id, Why.REFUSED_LATELY, left_s=avoided_s)
    if node.id in job.spec.windows.not_on:
        return because(node.id, Why.NOT_WANTED_THERE)
    if node.known_end_s is not None and ends_soon(node, now_s):
        return because(node.id, Why.ENDS_SOON, left_s=max(0.0, node.known_end_s - now_s))
    if not node.facts.reaches(job.spec.places):
        return because(node.id, Why.PLACE_NOT_REACHED, place=_place_for_people(job.spec.places))
    if node.facts.disk is not _ROOMY:
        return because(node.id, Why.DISK_FAILS_THERE if node.facts.disk_fails else Why.DISK_SHORT_THERE)
    limit = node.facts.terms.max_guests
    if view.guests >= limit:
        return because(node.id, Why.GUESTS_FULL, limit=limit)
    return None


def ends_soon(node: Node, at_s: float) -> bool:
    """Whether nobody new would come there at that moment, since its owner has it again soon after."""
    return node.known_end_s is not None and node.known_end_s - at_s < node.facts.terms.notice_s + LEAST_STAY_S


def _place_for_people(places: tuple[str, ...]) -> str:
    return "the campus's vault" if not places or places[0] == CAMPUS else places[0]


def _never_whole(job: Job, node: Node) -> Reason | None:
    """Before what is so now: no waiting mends it."""
    here = node.facts.system
    if job.spec.session is not None or (job.tier is not Tier.SYSTEM and job.dump is None):
        return None  # a session goes on from its variables where it cannot be brought back whole
    if here.able or here == UNTRIED:
        return None
    return because(node.id, Why.CANNOT_DUMP, why_not=here.why_not)


def _not_whole(job: Job, node: Node) -> Reason | None:
    """Of a job that is saved whole, or was once, on a machine that may do that: could it be dumped there, and
    brought back from what it has?"""
    if job.spec.session is not None or (job.tier is not Tier.SYSTEM and job.dump is None):
        return None
    if node.facts.system == UNTRIED:
        return because(node.id, Why.DUMPING_UNTRIED)
    return not_brought_back(job, node)


def not_brought_back(job: Job, node: Node) -> Reason | None:
    """Why the dump it has is of no use on a machine that could dump guests."""
    here = node.facts.system
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


def _not_free(request: Request, view: NodeView, now_s: float) -> Reason | None:
    node = view.node
    free = len(suitable(view.free_gpus, request))
    if free < request.gpus:
        return _too_few_free(request, view, free, now_s)
    if view.free_cpus < request.cpus:
        return because(node.id, Why.TOO_FEW_FREE_CPUS, free=view.free_cpus, needs=request.cpus)
    if view.free_memory_bytes < request.memory_bytes:
        free, needs = view.free_memory_bytes, request.memory_bytes
        return because(node.id, Why.TOO_LITTLE_FREE_MEMORY, free_bytes=free, needs_bytes=needs)
    return None


def _too_few_free(request: Request, view: NodeView, free: int, now_s: float) -> Reason:
    """Where GPUs are missing because they are not lent, who waits for them is told by whom."""
    node, withheld = view.node, []
    if node.withheld:
        able = {gpu.index for gpu in suitable(node.facts.lent_gpus, request)}
        withheld = [gpu.because(now_s) for gpu in node.withheld if gpu.index in able]
    if not withheld:
        return because(node.id, Why.TOO_FEW_FREE_GPUS, free=free, needs=request.gpus)
    return because(node.id, Why.GPU_WITHHELD, free=free, needs=request.gpus, because="; ".join(withheld))


def _model_fits(gpu: Gpu, request: Request) -> bool:
    if request.alike and gpu.model != request.alike:
        return False
    if any(is_model(gpu.model, name) for name in request.exclude_models):
        return False
    return not request.models or any(is_model(gpu.model, name) for name in request.models)
