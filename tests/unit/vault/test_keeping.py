"""A place on a machine of the campus: who gets in, what it may take, and what others are told of it."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from gpunion.adapters.memory_database import MemoryStore
from gpunion.agent.compose.lent_disk import KeptHere, keeper_server, refuse_own_name
from gpunion.agent.compose.vault import open_at_keeper
from gpunion.agent.machine.lend_disk_settings import Keeps
from gpunion.agent.settings import SettingsTrouble, settings_of
from gpunion.coordinator.locations.configured import places_from
from gpunion.coordinator.locations.node_disks import Keepers
from gpunion.domain.ids import NodeId
from gpunion.domain.nodes.node import Node, NodePhase
from gpunion.domain.passes import DAY_S, OVER, SKEW_S, Keeping, admission, key_of_place, why_not_admitted
from gpunion.vault.claim import claimed_by
from gpunion.vault.disk_quota import ADD_UP_EVERY_S, Allowance, leaving_free
from gpunion.vault.http.vault_desk import HttpVaultDesk
from gpunion.vault.locations import place_of, table_of
from gpunion.vault.manifest import VaultFull, VaultUnavailable
from gpunion.vault.stores.folder.store import DirectoryVault
from tests.builders import facts

SECRET = "5a" * 32
ATTIC = place_of("attic", {"kind": "node", "node": "box"})
NODE_ID = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=20)


@given(NODE_ID, NODE_ID, st.floats(0, 4e9), st.floats(0, DAY_S))
def test_an_admission_is_good_for_a_day_and_for_its_own_place_only(
    bearer: str, keeper: str, now_s: float, later_s: float
) -> None:
    key = key_of_place(SECRET, "attic", keeper)
    shown = admission(key, bearer, now_s)
    assert why_not_admitted(key, shown, now_s + later_s) == ""
    assert why_not_admitted(key, shown, now_s + 2 * DAY_S + SKEW_S + 1) == OVER
    for other in (key_of_place(SECRET, "cellar", keeper), key_of_place("5b" * 32, "attic", keeper)):
        assert why_not_admitted(other, shown, now_s) == "its admission is not good"


@given(st.one_of(st.text(), st.from_regex(r"\w+ \d+ \w+", fullmatch=True)))
def test_what_is_made_up_is_not_let_in(shown: str) -> None:
    assert why_not_admitted(key_of_place(SECRET, "attic", "box"), shown, 0.0)


def test_another_name_or_a_later_end_make_it_no_good() -> None:
    key = key_of_place(SECRET, "attic", "box")
    bearer, until, proof = admission(key, "laptop", 0.0).split(" ")
    for changed in (f"tower {until} {proof}", f"{bearer} {until}0 {proof}"):
        assert why_not_admitted(key, changed, 0.0) == "its admission is not good"


def test_people_cannot_write_what_only_the_coordinator_tells() -> None:
    told = replace(ATTIC, endpoint="https://box:8476", certificate="c", admission="a", key="k")
    assert place_of("attic", table_of(told), told=True) == told
    with pytest.raises(ValueError, match="unknown key 'admission'"):
        place_of("attic", {"kind": "node", "node": "box", "admission": "a"})
    with pytest.raises(ValueError, match="lacks node"):
        place_of("attic", {"kind": "node"})
    assert "a" * 20 not in repr(replace(ATTIC, admission="a" * 20, key="a" * 20))


def keepers(node: Node | None) -> Keepers:
    nodes = {} if node is None else {node.id: node}
    found = Keepers(MemoryStore(), nodes=lambda: nodes, now_s=lambda: 1000.0)
    asyncio.run(found.load())
    return found


def box(**changes: object) -> Node:
    keeping = Keeping(endpoint="https://10.0.0.7:8476", certificate="PEM")
    node = Node(
        id=NodeId("box"),
        facts=replace(facts(), keeping=keeping, places=("attic",)),
        phase=NodePhase.SHARING,
        incarnation="i",
        joined_s=0.0,
        phase_since_s=0.0,
    )
    return replace(node, **changes)  # type: ignore[arg-type]


def test_each_machine_is_told_its_own_way_in_and_the_keeper_whom_to_let_in() -> None:
    known = keepers(box())
    keeper, guest, anybody = known.told(ATTIC, "box"), known.told(ATTIC, "laptop"), known.shown(ATTIC)
    assert (guest.endpoint, guest.certificate, guest.key) == ("https://10.0.0.7:8476", "PEM", "")
    assert why_not_admitted(keeper.key, guest.admission, 1000.0) == ""
    assert guest.admission != keeper.admission
    assert (anybody.endpoint, anybody.admission, anybody.key) == ("https://10.0.0.7:8476", "", "")


def test_the_secret_outlives_the_coordinator() -> None:
    store = MemoryStore()
    keys = []
    for _ in range(2):
        found = Keepers(store, nodes=dict, now_s=lambda: 0.0)
        asyncio.run(found.load())
        keys.append(found.told(ATTIC, "box").key)
    assert keys[0] == keys[1] != ""


@pytest.mark.parametrize(
    ("node", "words"),
    [
        (None, "no machine called box has joined"),
        (box(phase=NodePhase.LEFT), "has left the campus"),
        (box(facts=facts()), "lends no disk"),
        (box(phase=NodePhase.SILENT), "nothing is heard"),
        (box(facts=replace(box().facts, places=("cellar",))), "box cannot use the disk that it lends"),
    ],
)
def test_what_is_wrong_with_it_is_told(node: Node | None, words: str) -> None:
    assert words in keepers(node).troubles([ATTIC])["attic"]


def test_a_machine_that_keeps_is_no_trouble() -> None:
    assert keepers(box()).troubles([ATTIC]) == {}


def test_no_more_is_kept_than_its_owner_lends(tmp_path: Path) -> None:
    now = [0.0]
    allowance = Allowance(tmp_path, 1000, keep_free_bytes=0, now_s=lambda: now[0])
    kept = tmp_path / "block"
    kept.write_bytes(bytes(600))
    allowance(300)
    with pytest.raises(VaultFull, match="its owner lends 1000 bytes"):
        allowance(200)
    kept.unlink()
    now[0] += 10.0  # what was deleted counts when there seems to be no room
    allowance(200)
    assert allowance.known_bytes == 200


def test_nobody_waits_for_the_adding_up_to_hear_whether_there_is_room_for_a_beginning(tmp_path: Path) -> None:
    looked, may_look = threading.Event(), threading.Event()

    def measure(root: Path) -> int:
        may_look.wait(60.0)
        looked.set()
        return 1024**3

    allowance = Allowance(tmp_path, 1024**3, keep_free_bytes=0, measure=measure)
    allowance.check()  # nothing is known yet
    may_look.set()
    assert looked.wait(60.0)
    allowance.add_up(1e9)  # until it is noted
    with pytest.raises(VaultFull, match="its owner lends"):
        allowance.check()
    allowance.freed(1024**2)
    allowance.check()
    with pytest.raises(VaultFull, match="nearly full"):
        Allowance(tmp_path, 10**18, keep_free_bytes=10**18).check()


def test_the_last_of_the_disk_is_its_owners(tmp_path: Path) -> None:
    with pytest.raises(VaultFull, match="nearly full"):
        Allowance(tmp_path, 10**18, keep_free_bytes=10**18)(1)


def test_a_vault_beside_the_database_leaves_it_its_room_and_one_elsewhere_need_not(tmp_path: Path) -> None:
    with pytest.raises(VaultFull, match="stay free for"):
        leaving_free(tmp_path, 10**18, tmp_path)(1)
    leaving_free(tmp_path, 0, tmp_path)(1)
    leaving_free(tmp_path, 10**18, Path("/proc/self"))(1)  # another disk


def test_who_has_made_room_can_use_it_at_once(tmp_path: Path) -> None:
    allowance = Allowance(tmp_path, 10_000, keep_free_bytes=0)
    vault = DirectoryVault(tmp_path, allow=allowance, freed=allowance.freed)
    blocks = [os.urandom(6000) for _ in range(2)]
    vault.put(blake3(blocks[0]).hexdigest(), blocks[0])
    with pytest.raises(VaultFull):
        vault.put(blake3(blocks[1]).hexdigest(), blocks[1])
    os.utime(next(vault.stored()), (0.0, 0.0))  # long ago
    assert vault.collect_garbage().blocks == 1
    vault.put(blake3(blocks[1]).hexdigest(), blocks[1])


def test_adding_up_a_large_disk_keeps_nobody_from_saving(tmp_path: Path) -> None:
    now, quick, sizes = [0.0], threading.Event(), iter((100, 300))
    quick.set()

    def measure(root: Path) -> int:
        quick.wait()
        return next(sizes)

    allowance = Allowance(tmp_path, 1000, keep_free_bytes=0, now_s=lambda: now[0], measure=measure)
    allowance(50)
    now[0] += 1000.0
    quick.clear()
    allowance(50)  # while what lies there is added up
    assert allowance.known_bytes == 200
    quick.set()
    allowance.add_up(ADD_UP_EVERY_S)
    assert allowance.known_bytes == 350  # what came meanwhile may not have been seen


def test_a_folder_that_is_another_place_already_is_not_kept_in_as_well(tmp_path: Path) -> None:
    keeps = Keeps(directory=tmp_path / "disk", limit_bytes=10**9, port=1, host="")
    kept = KeptHere(keeps, tmp_path / "state", "box")
    kept.opened()
    kept.others = lambda: {(tmp_path / "disk" / "mark").read_text().strip(): "campus"}
    with pytest.raises(VaultUnavailable, match="is the place campus already"):
        kept.opened()


def test_a_folder_on_a_network_is_kept_by_one_machine_and_the_second_is_told(tmp_path: Path) -> None:
    keeps = Keeps(directory=tmp_path / "disk", limit_bytes=10**9, port=1, host="")
    first = KeptHere(keeps, tmp_path / "first", "box")
    second = KeptHere(keeps, tmp_path / "second", "tower")
    first.opened()
    for again in (second, KeptHere(keeps, tmp_path / "second", "tower")):
        with pytest.raises(VaultUnavailable, match=r"is kept by box on .* already.*remove .*/disk/keeper"):
            again.opened()
    KeptHere(keeps, tmp_path / "first", "box").opened()
    (tmp_path / "disk" / "keeper").unlink()  # box keeps nothing there any more
    second.opened()
    with pytest.raises(VaultUnavailable, match="is kept by tower"):
        first.opened()


def test_a_claim_that_a_power_cut_left_empty_is_nobody_s(tmp_path: Path) -> None:
    (tmp_path / "keeper").write_bytes(b"")
    assert claimed_by(tmp_path / "keeper", "box") == "box"
    assert claimed_by(tmp_path / "keeper", "tower") == "box"
    assert claimed_by(tmp_path / "nowhere" / "keeper", "box") == ""


def test_two_places_on_one_machine_are_refused() -> None:
    tables = {name: {"kind": "node", "node": "box"} for name in ("attic", "cellar")}
    with pytest.raises(ValueError, match="attic and cellar are both on the disk of box"):
        places_from(tables, "attic")


def test_a_disk_that_is_not_mounted_is_not_taken_for_an_empty_vault(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    keeps = Keeps(directory=disk, limit_bytes=10**9, port=1, host="")
    kept = KeptHere(keeps, tmp_path / "state", "box")
    assert isinstance(kept.opened().vault, DirectoryVault)
    assert disk.stat().st_mode & 0o077 == 0  # what others save is not for everybody here
    disk.rename(tmp_path / "unmounted")
    disk.mkdir()
    for again in (kept, KeptHere(keeps, tmp_path / "state", "box")):
        with pytest.raises(VaultUnavailable, match="not mounted, or was emptied"):
            again.opened()
    assert list(disk.iterdir()) == []
    disk.rmdir()
    (tmp_path / "unmounted").rename(disk)
    kept.opened()


TABLE = {"coordinator": "http://campus:8765", "node_id": "box", "vault": "campus"}


@pytest.mark.parametrize(
    ("keeps", "words"),
    [
        ({"directory": "disk", "limit": "1 GB"}, "begins with /"),
        ({"directory": "/disk"}, "keeps.limit is missing"),
        ({"directory": "/disk", "limit": "much"}, "no amount"),
        ({"directory": "/disk", "limit": "1 GB", "port": 0}, "no port"),
        ({"directory": "/disk", "limit": "1 GB", "ports": 1}, "did you mean 'port'"),
        ({"directory": "/disk", "limit": "1 GB", "host": "0.0.0.0"}, "no address of this machine"),
        ({"directory": "/disk", "limit": "1 GB", "host": "https://box"}, "no address of this machine"),
        ({"directory": "/disk", "limit": "1 GB", "host": 10}, "no address of this machine"),
        (True, "must be a table"),
    ],
)
def test_an_owner_is_told_what_is_wrong_with_the_settings(tmp_path: Path, keeps: object, words: str) -> None:
    with pytest.raises(SettingsTrouble, match=words):
        settings_of({**TABLE, "keeps": keeps}, tmp_path, {})


def test_what_an_owner_lends(tmp_path: Path) -> None:
    found = settings_of({**TABLE, "keeps": {"directory": "/disk", "limit": "1 GB"}}, tmp_path, {})
    assert found.keeps == Keeps(directory=Path("/disk"), limit_bytes=10**9, port=8476, host="")


def test_a_disk_that_hangs_is_told_to_who_asks_and_holds_up_nobody(tmp_path: Path) -> None:
    settings = settings_of(TABLE, tmp_path / "state", {})
    keeps = Keeps(directory=tmp_path / "disk", limit_bytes=10**9, port=0, host="")
    kept = KeptHere(keeps, settings.state_dir, "box")
    kept.opened()
    place = keepers(box()).told(ATTIC, "box")
    server, told = keeper_server(
        settings, kept, lambda: (place,), lambda size_bytes, waiting: None, "127.0.0.1", stall_s=0.2
    )
    shown = admission(place.key, "laptop", time.time())
    mark = tmp_path / "disk" / "mark"
    right = mark.read_text()
    mark.unlink()
    os.mkfifo(mark)  # who reads it waits
    server.start()
    try:
        desk = HttpVaultDesk(f"https://{server.address}", shown, certificate=told.certificate)
        for words in ("the disk of box has got nothing done", "the disk of box has not answered"):
            with pytest.raises(VaultUnavailable, match=words):
                desk.latest("job-1")
        mark.with_name("mark.new").write_text(right)
        with mark.open("w") as waited_for:
            mark.with_name("mark.new").rename(mark)
            waited_for.write(right)
        until_s = time.monotonic() + 60.0
        while time.monotonic() < until_s:
            try:
                assert desk.latest("job-1") is None
                break
            except VaultUnavailable:  # it is on its way back
                time.sleep(0.01)
        else:
            pytest.fail("the disk is back, and nobody is served")
    finally:
        server.close()


@pytest.mark.parametrize(
    ("endpoint", "certificate"),
    [("https://10.0.0.7:8476", "no certificate"), ("https://[::", ""), ("https://10.0.0.7:port", "")],
)
def test_what_a_machine_says_of_itself_and_makes_no_sense_is_a_place_out_of_reach(
    tmp_path: Path, endpoint: str, certificate: str
) -> None:
    place = replace(ATTIC, endpoint=endpoint, certificate=certificate, admission="a")
    with pytest.raises(VaultUnavailable, match="makes no sense"):
        open_at_keeper(place, tmp_path, 0)


def test_a_name_that_is_this_machine_only_for_itself_is_not_told_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for address in ("127.0.0.1", "10.0.0.7", "::1"):
        refuse_own_name(address)
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, port: [(0, 0, 0, "", ("127.0.1.1", 0))])
    with pytest.raises(ValueError, match=r"box is 127\.0\.1\.1, which nobody else reaches"):
        refuse_own_name("box")
