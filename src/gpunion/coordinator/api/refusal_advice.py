"""What somebody does next whose job no machine would ever take, by what the machines say against it."""

from __future__ import annotations

from collections.abc import Iterable

from gpunion.domain.reasons.reason import Reason
from gpunion.domain.reasons.why import Why
from gpunion.domain.version_ranges import distance

_VERSIONS = frozenset({Why.OTHER_CAPABILITY, Why.OTHER_CUDA})
LESS = "ask for less, or for what a machine has: GET /api/v1/nodes"
ANOTHER_IMAGE = "choose another image (GET /api/v1/images), or leave it out"
IT_DEPENDS = "see what each machine says against it: GET /api/v1/nodes shows what they have"

_DECLARE = "ask an owner to write into agent.toml what their GPUs have, or leave that out of the job"

_WAYS_OUT = {
    Why.LAB_NOT_ADMITTED: "say whose it is (lab), or ask the owners of these machines to admit that lab",
    Why.PERSON_NOT_ADMITTED: "ask the owners of these machines to admit you",
    Why.UNSANDBOXED: "ask the owners to install bubblewrap, Docker or Podman: gpunion doctor on their "
    "machines says what is missing",
    Why.NO_NETWORK_HERE: "do without the network, or ask an owner to allow it (egress in the terms)",
    Why.NO_SESSIONS_HERE: "hand it in as a job, or ask an owner to allow sessions (sessions in the terms)",
    Why.NO_IMAGES_HERE: "leave the image out, or ask an owner to join with Docker or Podman",
    Why.IMAGE_NOT_ADMITTED: ANOTHER_IMAGE,
    Why.IMAGE_TOO_LARGE: ANOTHER_IMAGE,
    Why.IMAGE_NEEDS_CUDA: ANOTHER_IMAGE,
    Why.CAPABILITY_UNKNOWN: _DECLARE,
    Why.CUDA_UNKNOWN: _DECLARE,
    Why.CANNOT_DUMP: "let the program save itself (checkpoint tier app), or ask an owner to join with Podman "
    "and CRIU",
    Why.SLICES_APART: "ask for one GPU, or for machines with whole cards: GET /api/v1/nodes",
    Why.SLICE_NOT_DUMPED: "let the program save itself (checkpoint tier app): a dump needs a whole card",
}


def nearest(refusals: Iterable[Reason]) -> list[str]:
    """Of machines whose GPUs or drivers are not what a job asks for, the one that comes closest, in words."""
    found = [
        (_far(reason), reason.subject, reason.sentence()) for reason in refusals if reason.why in _VERSIONS
    ]
    return [f"the nearest is {subject}: {sentence}" for _, subject, sentence in sorted(found)[:1]]


def _far(reason: Reason) -> float:
    facts = dict(reason.facts)
    return distance(str(facts["has"]).partition(",")[0], str(facts["asked"]))


def way_out(refusals: Iterable[Why]) -> str:
    """Machines that have left stand in nobody's way."""
    ways = {_WAYS_OUT.get(why, LESS) for why in refusals if why is not Why.NODE_LEFT}
    if len(ways) > 1:
        return IT_DEPENDS
    return ways.pop() if ways else LESS
