"""Which coordinator is meant, and that a token goes nowhere else."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest

from gpunion.cli.config import Address, checked_url, config_path, find_address, keep
from gpunion.cli.exits import DENIED, UNAVAILABLE, Trouble

KEPT = "http://kept.example:1"


def given(url: str | None = None, token: str | None = None) -> Namespace:
    return Namespace(url=url, token=token)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "GPUNION_COORDINATOR_DATA_DIR": str(tmp_path / "none")}


def told(address: Address) -> tuple[str, str]:
    return address.url, address.token


def test_flags_win_over_the_environment_and_that_over_what_was_kept(environment: dict[str, str]) -> None:
    keep(environment, KEPT, "kept")
    assert told(find_address(environment, given())) == (KEPT, "kept")
    environment |= {"GPUNION_URL": "http://env.example/", "GPUNION_TOKEN": "env"}
    assert told(find_address(environment, given())) == ("http://env.example", "env")
    assert told(find_address(environment, given("http://flag.example", "flag"))) == (
        "http://flag.example",
        "flag",
    )


def test_a_kept_token_is_never_sent_to_another_address(environment: dict[str, str]) -> None:
    keep(environment, KEPT, "kept")
    with pytest.raises(Trouble, match="no token for http://other") as raised:
        find_address(environment, given("http://other.example"))
    assert raised.value.code == DENIED
    assert told(find_address(environment, given(KEPT))) == (KEPT, "kept")


def test_another_token_for_the_kept_address_is_used(environment: dict[str, str]) -> None:
    keep(environment, KEPT, "kept")
    assert told(find_address(environment, given(token="mine"))) == (KEPT, "mine")


def test_a_coordinator_of_ones_own_needs_no_login(environment: dict[str, str], tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "address").write_text("http://127.0.0.1:9\n")
    (data / "admin.token").write_text("secret\n")
    environment["GPUNION_COORDINATOR_DATA_DIR"] = str(data)
    assert told(find_address(environment, given())) == ("http://127.0.0.1:9", "secret")


def test_nothing_known_is_said_with_the_way_out(environment: dict[str, str]) -> None:
    with pytest.raises(Trouble, match="no coordinator is known") as raised:
        find_address(environment, given())
    assert raised.value.code == UNAVAILABLE
    assert "gpunion login" in raised.value.next_step


def test_what_is_kept_is_for_its_users_eyes_only(environment: dict[str, str]) -> None:
    path = keep(environment, KEPT, 'odd "token"\\')
    assert path == config_path(environment)
    assert path.stat().st_mode & 0o777 == 0o600
    assert find_address(environment, given()).token == 'odd "token"\\'
    path.chmod(0o644)
    with pytest.raises(Trouble, match="other users can read") as raised:
        find_address(environment, given())
    assert f"chmod 600 {path}" in raised.value.next_step


@pytest.mark.parametrize(
    ("text", "message"),
    [("this is no toml", "cannot be read"), ("ulr = 'http://x'", "does not know 'ulr'; did you mean url?")],
)
def test_a_broken_config_file_is_explained(environment: dict[str, str], text: str, message: str) -> None:
    path = keep(environment, KEPT, "kept")
    path.write_text(text)
    with pytest.raises(Trouble, match=message):
        find_address(environment, given())


@pytest.mark.parametrize("url", ["campus.example", "ftp://x", "http://", "http://x:port", "http://x/?q=1"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(Trouble, match="not a coordinator's address"):
        checked_url(url)
