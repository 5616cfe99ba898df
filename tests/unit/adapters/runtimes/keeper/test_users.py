"""Every guest of a root agent is a user that no other guest on the machine is."""

from __future__ import annotations

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gpunion.adapters.runtimes.keeper.users import GUEST_IDS, GuestUsers, living_users
from gpunion.owner_kill.guest import EXIT_FILE
from gpunion.ports.runtime import RuntimeFault


@pytest.fixture
def users(tmp_path: Path) -> GuestUsers:
    return GuestUsers(tmp_path / "claims", lambda: ())


def a_guest(tmp_path: Path, name: str) -> Path:
    root = tmp_path / "guests" / name
    root.mkdir(parents=True)
    return root


def test_no_two_guests_are_one_user_whoever_asks_at_the_same_time(tmp_path: Path, users: GuestUsers) -> None:
    roots = [a_guest(tmp_path, f"run-{number}") for number in range(20)]
    with ThreadPoolExecutor(4) as agents:
        claimed = list(agents.map(users.claim, roots))
    assert len(set(claimed)) == 20
    assert set(claimed) <= set(GUEST_IDS)


def test_an_agent_that_starts_again_finds_a_guests_user(tmp_path: Path, users: GuestUsers) -> None:
    root, other = a_guest(tmp_path, "run-1"), a_guest(tmp_path, "run-2")
    claimed = users.claim(root)
    again = GuestUsers(tmp_path / "claims", lambda: ())
    assert again.claim(root) == claimed
    assert again.claim(other) != claimed


def test_a_user_is_given_back_with_the_guests_directory_and_nothing_stays(
    tmp_path: Path, users: GuestUsers
) -> None:
    root = a_guest(tmp_path, "run-1")
    claimed = users.claim(root)
    shutil.rmtree(root)
    users.give_back(root)
    users.give_back(root)
    assert not (tmp_path / "claims").exists()
    assert users.claim(a_guest(tmp_path, "run-2")) == claimed


def test_a_guest_that_somebody_else_removed_holds_no_user(tmp_path: Path, users: GuestUsers) -> None:
    gone = a_guest(tmp_path, "run-1")
    claimed = users.claim(gone)
    shutil.rmtree(gone)
    assert users.claim(a_guest(tmp_path, "run-2")) == claimed


def test_a_user_that_somebody_is_without_a_note_is_left_alone(tmp_path: Path) -> None:
    users = GuestUsers(tmp_path / "claims", lambda: {0, GUEST_IDS[0], GUEST_IDS[1]})
    assert users.claim(a_guest(tmp_path, "run-1")) == GUEST_IDS[2]


def test_with_every_user_taken_the_next_guest_waits_for_one_to_end(tmp_path: Path, users: GuestUsers) -> None:
    first = a_guest(tmp_path, "run-1")
    claimed = users.claim(first)
    for user in GUEST_IDS[1:]:
        (tmp_path / "claims" / str(user)).symlink_to(a_guest(tmp_path, f"holder-{user}"))
    next_one = a_guest(tmp_path, "one-too-many")
    with pytest.raises(RuntimeFault, match="users for guests") as refusal:
        users.claim(next_one)
    assert refusal.value.temporary
    (first / EXIT_FILE).touch()
    assert users.claim(next_one) == claimed
    users.give_back(first)
    assert users.claim(next_one) == claimed
    forgotten = tmp_path / "claims" / str(GUEST_IDS[7])
    os.utime(forgotten, (1, 1), follow_symlinks=False)
    assert users.claim(a_guest(tmp_path, "another")) == GUEST_IDS[7]


def test_who_lives_is_seen_by_who_it_is() -> None:
    with subprocess.Popen(["sleep", "100"], user=GUEST_IDS[-1] if os.getuid() == 0 else None) as sleeper:
        who = GUEST_IDS[-1] if os.getuid() == 0 else os.getuid()
        assert who in living_users()
        sleeper.kill()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else for a moment")
def test_an_agent_that_is_not_root_has_nothing_to_give_back(tmp_path: Path, users: GuestUsers) -> None:
    root = tmp_path / "guest"
    root.mkdir()
    users.claim(root)
    os.seteuid(65534)
    try:
        users.give_back(root)  # the folder of claims is root's
    finally:
        os.seteuid(0)
    assert users.claim(root) in GUEST_IDS


def test_a_user_that_is_wanted_is_given_where_it_is_nobodys(tmp_path: Path, users: GuestUsers) -> None:
    first, second = a_guest(tmp_path, "run-1"), a_guest(tmp_path, "run-2")
    assert users.claim(first, 1234) == 1234
    assert users.claim(first, 1234) == 1234
    with pytest.raises(RuntimeFault, match="image's user is 1234") as fault:
        users.claim(second, 1234)
    assert fault.value.temporary
    users.give_back(first)
    assert users.claim(second, 1234) == 1234


def test_a_user_that_a_process_is_already_is_given_to_no_guest(tmp_path: Path) -> None:
    users = GuestUsers(tmp_path / "claims", lambda: {1234})
    with pytest.raises(RuntimeFault, match="somebody else on this machine"):
        users.claim(a_guest(tmp_path, "run-1"), 1234)
