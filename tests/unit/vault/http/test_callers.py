"""Who gives way when all places are taken."""

from __future__ import annotations

import pytest

from gpunion.vault.http.callers import Callers, NoPlace


def test_there_is_a_place_for_a_newcomer_and_the_oldest_stranger_gives_way() -> None:
    callers: Callers[int] = Callers(3)
    assert [callers.come(number, "10.0.0.1") for number in range(5)] == [None, None, None, 0, 1]


def test_an_address_that_takes_more_than_others_gives_way_before_them() -> None:
    callers: Callers[str] = Callers(4)
    assert callers.come("honest", "10.0.0.9") is None
    assert [callers.come(f"h{number}", "10.0.0.1") for number in range(5)] == [None, None, None, "h0", "h1"]


def test_who_is_known_stays_as_long_as_there_is_a_stranger() -> None:
    callers: Callers[str] = Callers(3, known_give_way=True)
    callers.come("node", "10.0.0.1")
    callers.know("node", "node n1")
    left = [callers.come(f"h{number}", "10.0.0.1") for number in range(100)]
    assert "node" not in left
    assert left[:4] == [None, None, "h0", "h1"]


def test_where_all_are_known_a_newcomer_has_the_place_of_whoever_has_most_or_none() -> None:
    def full(*, known_give_way: bool) -> Callers[str]:
        callers: Callers[str] = Callers(3, known_give_way=known_give_way)
        for one, name in (("a1", "a"), ("b1", "b"), ("b2", "b")):
            callers.come(one, "10.0.0.1")
            callers.know(one, name)
        return callers

    assert full(known_give_way=True).come("new", "10.0.0.1") == "b1"
    with pytest.raises(NoPlace):
        full(known_give_way=False).come("new", "10.0.0.1")


def test_strangers_have_a_limit_of_their_own() -> None:
    callers: Callers[int] = Callers(100, strangers_most=2)
    assert [callers.come(number, f"10.0.0.{number}") for number in range(4)] == [None, None, 0, 1]


def test_who_went_is_told_of_no_more_and_makes_room() -> None:
    callers: Callers[str] = Callers(1)
    callers.come("a", "x")
    callers.go("a")
    callers.go("a")
    callers.know("a", "too late")
    assert callers.come("b", "x") is None
    assert callers.come("c", "x") == "b"


def test_many_addresses_of_one_holder_count_as_one() -> None:
    callers: Callers[str] = Callers(3)
    callers.come("honest", "2001:db8:1::1")
    for number in range(2):
        callers.come(f"h{number}", f"2001:db8:2::{number}")
    assert callers.come("h2", "2001:db8:2::ffff") == "h0"
    callers.come("mapped", "::ffff:10.0.0.1")


def test_of_more_than_so_many_with_one_name_the_one_that_asked_longest_ago_goes() -> None:
    callers: Callers[str] = Callers(100)
    for one in ("n1", "n2", "n3"):
        callers.come(one, "10.0.0.1")
    assert callers.know("n1", "node", 2) is None
    assert callers.know("n2", "node", 2) is None
    assert callers.know("n1", "node", 2) is None  # it asks again
    assert callers.know("n3", "node", 2) == "n2"
    callers.come("other", "10.0.0.1")
    assert callers.know("other", "another node", 2) is None
