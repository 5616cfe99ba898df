"""Which places a guest may reach."""

from __future__ import annotations

import ipaddress

import pytest

from gpunion.domain.egress import may_reach, parse_place


def reaches(allowed: str, name: str, address: str, port: int = 443) -> bool:
    return may_reach((parse_place(allowed),), name, ipaddress.ip_address(address), port)


def test_a_name_leads_to_its_public_addresses_at_its_port() -> None:
    assert reaches("data.example:443", "Data.Example.", "93.184.216.34")
    assert not reaches("data.example:443", "data.example", "93.184.216.34", 80)
    assert not reaches("data.example:443", "other.example", "93.184.216.34")
    assert reaches("data.example:*", "data.example", "93.184.216.34", 80)


def test_a_name_that_is_pointed_at_the_owners_network_leads_nowhere() -> None:
    for address in (
        "192.168.1.1",
        "10.0.0.1",
        "127.0.0.1",
        "169.254.1.1",
        "::1",
        "::ffff:10.0.0.1",
        "0.0.0.0",
    ):
        assert not reaches("data.example:443", "data.example", address), address


def test_a_star_stands_for_what_comes_before_the_name() -> None:
    assert reaches("*.example:443", "a.b.example", "93.184.216.34")
    assert not reaches("*.example:443", "example", "93.184.216.34")
    assert not reaches("*.example:443", "badexample", "93.184.216.34")


def test_a_network_is_reached_by_address_and_by_any_name() -> None:
    assert reaches("10.1.0.0/16:443", "10.1.2.3", "10.1.2.3")
    assert reaches("10.1.0.0/16:443", "storage.lab", "10.1.2.3")
    assert reaches("10.1.0.0/16:443", "::ffff:10.1.2.3", "::ffff:10.1.2.3")
    assert reaches("[fd00::/8]:443", "fd00::1", "fd00::1")
    assert not reaches("10.1.0.0/16:443", "10.2.0.1", "10.2.0.1")


def test_everywhere_does_not_mean_the_owners_own_network() -> None:
    assert reaches("0.0.0.0/0:443", "any.example", "93.184.216.34")
    assert not reaches("0.0.0.0/0:443", "router", "192.168.1.1")
    assert not reaches("0.0.0.0/0:443", "localhost", "127.0.0.1")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "data.example",
        ":443",
        "data.example:",
        "data.example:0",
        "data.example:x",
        "a b:1",
        "10.0.0.0/99:1",
    ],
)
def test_what_is_no_place_is_refused_with_what_it_looks_like(text: str) -> None:
    with pytest.raises(ValueError, match=r"port|place|network"):
        parse_place(text)
