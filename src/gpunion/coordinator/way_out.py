"""What somebody does next whose job no machine would ever take, by what the machines say against it."""

from __future__ import annotations

from collections.abc import Iterable

from gpunion.domain.why import Why

LESS = "ask for less, or for what a machine has: GET /api/v1/nodes"
ANOTHER_IMAGE = "choose another image (GET /api/v1/images), or leave it out"
IT_DEPENDS = "see what each machine says against it: GET /api/v1/nodes shows what they have"

_WAYS_OUT = {
    Why.LAB_NOT_ADMITTED: "say whose it is (lab), or ask the owners of these machines to admit that lab",
    Why.PERSON_NOT_ADMITTED: "ask the owners of these machines to admit you",
    Why.UNSANDBOXED: "ask the owners to install bubblewrap, Docker or Podman: gpunion doctor on their "
    "machines says what is missing",
    Why.NO_NETWORK_HERE: "do without the network, or ask an owner to allow it (egress in the terms)",
    Why.NO_IMAGES_HERE: "leave the image out, or ask an owner to join with Docker or Podman",
    Why.IMAGE_NOT_ADMITTED: ANOTHER_IMAGE,
    Why.IMAGE_TOO_LARGE: ANOTHER_IMAGE,
    Why.CANNOT_DUMP: "let the program save itself (checkpoint tier app), or ask an owner to join with Podman "
    "and CRIU",
}


def way_out(refusals: Iterable[Why]) -> str:
    """Machines that have left stand in nobody's way."""
    ways = {_WAYS_OUT.get(why, LESS) for why in refusals if why is not Why.NODE_LEFT}
    if len(ways) > 1:
        return IT_DEPENDS
    return ways.pop() if ways else LESS
