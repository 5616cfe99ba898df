from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpunion.agent.link.joining import JoinRequest, JoinTrouble, join
from gpunion.agent.settings import load_settings
from gpunion.domain.nodes.terms import Terms
from gpunion.domain.resources import GIB, Gpu
from gpunion.ports.coordinator_link import Application, Enrolment
from gpunion.vault.mark import mark_of, shares

GPU = Gpu(index=0, model='odd "name" \\ \x7f ü', memory_bytes=24 * GIB, speed=0.5)


class OneTokenRegistrar:
    def __init__(self, vault: str | None = "/srv/vault", mark: str = "") -> None:
        self.vault = vault
        self.mark = mark
        self.applications: list[Application] = []

    async def enrol(self, application: Application) -> Enrolment:
        self.applications.append(application)
        return Enrolment(node_id="alpha-1", credential="secret", vault=self.vault, vault_mark=self.mark)

    async def farewell(self, credential: str) -> None:
        raise AssertionError("nobody leaves while joining")


def a_request(state_dir: Path, **changes: object) -> JoinRequest:
    fields: dict[str, object] = {
        "url": "http://campus.example:8765",
        "join_token": "once",
        "name": "alpha-1",
        "lab": "alpha",
        "state_dir": state_dir / "state",
        "gpus": (GPU, GPU),
        "memory_bytes": 8 * GIB,
        "terms": Terms(notice_s=15.0, deny_labs=("beta",), max_guests=2, autonomy_s=5.0),
        **changes,
    }
    return JoinRequest(**fields)  # type: ignore[arg-type]


async def test_joining_leaves_settings_that_load_and_a_credential_of_one_s_own(tmp_path: Path) -> None:
    joined = await join(a_request(tmp_path), OneTokenRegistrar())
    settings = load_settings(tmp_path / "state", {})
    assert settings.node_id == joined.node_id == "alpha-1"
    assert settings.credential() == "secret"
    assert settings.vault == Path("/srv/vault")
    assert [gpu.model for gpu in settings.gpus] == [GPU.model, GPU.model]
    assert settings.terms == Terms(notice_s=15.0, deny_labs=("beta",), max_guests=2, autonomy_s=5.0)
    assert settings.credential_file.stat().st_mode & 0o077 == 0
    assert settings.state_dir.stat().st_mode & 0o077 == 0


async def test_a_machine_that_has_joined_is_told_what_it_can_do(tmp_path: Path) -> None:
    registrar = OneTokenRegistrar()
    await join(a_request(tmp_path), registrar)
    with pytest.raises(JoinTrouble, match="gpunion leave"):
        await join(a_request(tmp_path), registrar)
    assert len(registrar.applications) == 1


@pytest.mark.parametrize("changes", [{"url": "campus"}, {"cpus": -1.0}, {"memory_bytes": 0}])
async def test_bad_settings_do_not_cost_the_token(tmp_path: Path, changes: dict[str, object]) -> None:
    registrar = OneTokenRegistrar()
    with pytest.raises(JoinTrouble):
        await join(a_request(tmp_path, **changes), registrar)
    assert registrar.applications == []


@contextlib.contextmanager
def files_end_after(size_bytes: int) -> Iterator[None]:
    """What is written beyond is refused by the kernel, as a full disk or a quota refuses it."""
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, usual[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)


async def test_what_a_join_that_was_killed_left_is_cleared_by_the_next(tmp_path: Path) -> None:
    left = tmp_path / "state" / ".room.4711"
    left.parent.mkdir()
    left.write_bytes(b"")
    await join(a_request(tmp_path), OneTokenRegistrar())
    assert sorted(file.name for file in left.parent.iterdir()) == ["agent.toml", "credential"]


async def test_a_disk_without_room_does_not_cost_the_token(tmp_path: Path) -> None:
    registrar = OneTokenRegistrar()
    with files_end_after(100_000), pytest.raises(JoinTrouble, match="token is as good as before"):
        await join(a_request(tmp_path), registrar)
    assert registrar.applications == []
    assert not (tmp_path / "state").exists()
    await join(a_request(tmp_path), registrar)  # the same command again, once there is room
    assert load_settings(tmp_path / "state", {}).credential() == "secret"
    assert sorted(file.name for file in (tmp_path / "state").iterdir()) == ["agent.toml", "credential"]


async def test_a_disk_that_fills_while_joining_costs_the_token_and_the_name(tmp_path: Path) -> None:
    class ThenNoRoom(OneTokenRegistrar):
        async def enrol(self, application: Application) -> Enrolment:
            [folder] = [path for path in tmp_path.rglob("state") if not (path / "agent.toml").exists()]
            (folder / "agent.toml").mkdir()  # nothing can be put in its place
            return await super().enrol(application)

    registrar = ThenNoRoom()
    with pytest.raises(JoinTrouble, match=r"in as alpha-1, but .*\nNext: .*new token.* adds a number"):
        await join(a_request(tmp_path), registrar)
    assert [file.name for file in (tmp_path / "state").iterdir()] == ["agent.toml"]


async def test_without_any_vault_the_next_step_says_so(tmp_path: Path) -> None:
    joined = await join(a_request(tmp_path), OneTokenRegistrar(vault=None))
    assert "vault =" in joined.next_step


async def test_a_folder_that_is_not_the_campus_s_vault_is_told_at_once(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    mark = mark_of(shared)
    told = [
        (await join(request, OneTokenRegistrar(str(shared), mark), shares)).next_step
        for request in (
            replace(a_request(tmp_path / "right"), vault=str(shared)),
            replace(a_request(tmp_path / "wrong"), vault=str(tmp_path)),
        )
    ]
    assert told[0].startswith("gpunion agent")
    assert told[1].startswith(f"{tmp_path} of this machine is not the campus's vault")


async def test_a_machine_that_does_not_see_the_vault_goes_through_the_coordinator(
    tmp_path: Path,
) -> None:
    shared = tmp_path / "shared"
    mark = mark_of(shared)
    assert mark == mark_of(shared) != mark_of(tmp_path / "another")
    for name, folder, expected in (("near", shared, shared), ("far", tmp_path / "another", None)):
        await join(a_request(tmp_path / name), OneTokenRegistrar(str(folder), mark), shares)
        assert load_settings(tmp_path / name / "state", {}).vault == expected
    assert mark_of(Path("/proc/nowhere")) == ""
