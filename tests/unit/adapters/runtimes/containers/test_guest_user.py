"""Whether a guest can be the user its image names: a question of how users inside become users outside."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpunion.adapters.runtimes.containers.guest_user import GuestUser, Ids, OtherUsers, as_image_says
from gpunion.ports.runtime import RuntimeFault

NOBODYS = 61_101
CLAIMED = GuestUser(own=True, others=OtherUsers.CLAIMED, described="a user of its own")


def given(user: GuestUser, ids: Ids, claim: Callable[[int], int] = lambda wanted: wanted) -> GuestUser:
    return as_image_says(user, ids, str(ids.user), claim)


def test_in_a_mapped_range_any_user_is_somebody_else_outside() -> None:
    mapped = GuestUser(inside="1000:1000", others=OtherUsers.MAPPED, first_host_id=1_900_000_000)
    found = given(mapped, Ids(user=7, group=0))
    assert (found.inside, found.host_id) == ("7:0", 1_900_000_007)


def test_podman_without_root_makes_the_agents_user_that_number_inside() -> None:
    kept = GuestUser(inside="1000:1000", words=("--userns", "keep-id"), others=OtherUsers.KEPT)
    found = given(kept, Ids(user=7, group=8))
    assert (found.inside, found.words) == ("7:8", ("--userns", "keep-id:uid=7,gid=8"))


def test_without_a_mapping_a_number_that_is_nobodys_is_claimed_for_this_guest() -> None:
    claimed: list[int] = []

    def claim(wanted: int) -> int:
        claimed.append(wanted)
        return wanted

    found = given(CLAIMED, Ids(user=NOBODYS, group=0), claim)
    assert (found.inside, found.host_id, claimed) == (f"{NOBODYS}:{NOBODYS}", NOBODYS, [NOBODYS])


def test_without_a_mapping_nobody_becomes_a_person_of_this_machine() -> None:
    with pytest.raises(RuntimeFault, match=r"outside the container that number is daemon's.*userns-remap"):
        given(CLAIMED, Ids(user=1, group=1))


@pytest.mark.parametrize("number", [65_536, 1_900_000_007])
def test_a_number_beyond_what_a_mapping_holds_is_refused(number: int) -> None:
    with pytest.raises(RuntimeFault, match=f"the image's user is {number}, and this machine cannot give it"):
        given(CLAIMED, Ids(user=number, group=0))


def test_where_guests_can_be_one_user_only_another_is_refused() -> None:
    with pytest.raises(RuntimeFault, match="guests are user 5000 here"):
        given(GuestUser(inside="5000:5000", described="user 5000"), Ids(user=7, group=7))
