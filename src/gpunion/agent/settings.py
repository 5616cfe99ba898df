"""What an owner has set: `agent.toml` in the state directory, and GPUNION_* in the environment over it."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gpunion.agent.machine.lend_disk_settings import KEYS as KEEPS_KEYS
from gpunion.agent.machine.lend_disk_settings import Keeps, keeps_of
from gpunion.agent.machine.watch_settings import KEYS as WATCH_KEYS
from gpunion.agent.machine.watch_settings import WatchSettings, watch_settings
from gpunion.agent.terms.file import TermsTrouble
from gpunion.agent.terms.in_force import find_terms
from gpunion.domain.egress import parse_place
from gpunion.domain.gpu_models import declared_speed
from gpunion.domain.nodes.terms import HouseRules, OwnersTerms, Terms
from gpunion.domain.resources import GIB, Gpu
from gpunion.domain.version_ranges import version_of
from gpunion.limits import CPUS_MAX, GUESTS_MAX, RATE_MAX_BPS, SPEED_MAX
from gpunion.owner_kill.command import default_state_dir
from gpunion.text import amount_of_memory, number, positive, truth, words

SETTINGS_FILE = "agent.toml"
# As a vault: checkpoints go through the coordinator, for machines that share no folder with it.
THROUGH_COORDINATOR = "campus"
CREDENTIAL_FILE = "credential"
RUNTIMES = ("sandbox", "docker", "podman")
# Where the list of GPUs comes from. auto: the [[gpu]] sections where there are any, else the driver.
GPU_SOURCES = ("auto", "nvml", "declared")
PORT_MAX = 65_535
GPUS_MAX = 64  # more GPUs in one machine than anybody sells: a typing error

DEFAULT_CACHE_BYTES = 10 * GIB
DEFAULT_IMAGE_QUOTA_BYTES = 50 * GIB  # two or three images with CUDA and a framework
# A gigabit: the usual campus port. What a node really has is measured later.
DEFAULT_UPLINK_BPS = 1e9


class SettingsTrouble(ValueError):
    """What is wrong with the settings and what to do about it, in words for the owner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    state_dir: Path
    coordinator: str
    node_id: str
    lab: str
    vault: Path | None  # None: the campus's, through the coordinator
    credential_file: Path
    building: str = ""
    runtime: str = "sandbox"
    image: str | None = None  # of guests in containers; None: this machine's own programs, read-only
    gpus: tuple[Gpu, ...] = ()  # declared; where the driver is asked, their speeds are what the owner says
    gpu_source: str = "auto"
    gpu_watch: WatchSettings = field(default_factory=WatchSettings)
    cpus: float = field(default_factory=lambda: float(os.cpu_count() or 1))
    memory_bytes: int = field(default_factory=lambda: machine_memory_bytes())
    uplink_bps: float = DEFAULT_UPLINK_BPS
    # Of jobs' directories, packages and states that lie ready: each of the three so much.
    cache_bytes: int = DEFAULT_CACHE_BYTES
    image_quota_bytes: int = (
        DEFAULT_IMAGE_QUOTA_BYTES  # for images that guests bring; the owner's own do not count
    )
    data_port: int = 0  # where other machines may fetch blocks of jobs that run here; 0: nowhere
    metrics_port: int = 0  # on the loopback: where this machine shows its own GPUs; 0: nowhere
    data_host: str = ""  # the address they use; "": the one towards the coordinator
    keeps: Keeps | None = None  # checkpoints of others, on a disk of this machine
    terms: Terms = field(default_factory=Terms)
    house: HouseRules = field(default_factory=HouseRules)
    # What this machine has otherwise than the campus's configuration says of a place.
    places: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    terms_trouble: str = ""  # why these are not the terms the owner has written last

    def credential(self) -> str:
        """The secret this node shows the coordinator. Refused where others could read it."""
        try:
            if self.credential_file.stat().st_mode & 0o077:
                raise SettingsTrouble(
                    f"other users can read {self.credential_file}. Next: chmod 600 {self.credential_file}"
                )
            return self.credential_file.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise SettingsTrouble(
                f"{self.credential_file} cannot be read ({error.strerror}). Next: gpunion join"
            ) from error


KEYS = {
    "coordinator", "node_id", "lab", "building", "vault", "credential_file", "runtime", "image", "cpus",
    "memory", "cache", "image_quota", "uplink_bps", "gpu", "gpu_source", "gpu_watch", "terms", "data_port",
    "metrics_port",
    "data_host", "places", "keeps",
}  # fmt: skip
PLACE_KEYS = {"directory", "endpoint", "credentials"}
GPU_KEYS = {"model", "memory", "speed", "count", "compute_capability", "cuda", "driver"}
# What `gpunion join` writes. Once there is a terms.toml, that counts instead, and has all of the terms.
TERMS_KEYS = {
    "notice_s", "allow_unsandboxed", "allow_labs", "deny_labs", "max_guests", "memory", "autonomy_s",
    "images", "egress",
}  # fmt: skip
# Settings that make sense for one start only, each GPUNION_<KEY>; the rest of GPUNION_* belongs to others.
ENVIRONMENT_KEYS = (
    "coordinator",
    "lab",
    "building",
    "vault",
    "credential_file",
    "runtime",
    "image",
    "gpu_source",
    "cpus",
    "memory",
    "uplink_bps",
    "data_port",
    "data_host",
)


def state_dir_of(given: str | os.PathLike[str] | None = None) -> Path:
    return Path(given if given is not None else default_state_dir()).absolute()


def load_settings(state_dir: Path, environment: Mapping[str, str] | None = None) -> Settings:
    path = state_dir / SETTINGS_FILE
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SettingsTrouble(
            f"This machine has not joined a campus: there is no {path}.\nNext: gpunion join URL --token TOKEN"
        ) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsTrouble(f"{path} cannot be read: {error}") from error
    return with_terms(settings_of(table, state_dir, os.environ if environment is None else environment))


def with_terms(settings: Settings) -> Settings:
    """The terms from their own file, where there is one."""
    try:
        found = find_terms(settings.state_dir, OwnersTerms(terms=settings.terms, house=settings.house))
    except TermsTrouble as trouble:
        raise SettingsTrouble(str(trouble)) from trouble
    owners = found.terms
    return replace(settings, terms=owners.terms, house=owners.house, terms_trouble=found.trouble)


def terms_now(settings: Settings) -> Terms:
    """As they are written at this moment; as they were when the agent started where that cannot be read."""
    try:
        return with_terms(settings).terms
    except SettingsTrouble:
        return settings.terms


def settings_of(table: Mapping[str, Any], state_dir: Path, environment: Mapping[str, str]) -> Settings:
    refuse_unknown(table, KEYS, SETTINGS_FILE)
    merged = {**table, **_from_environment(environment)}
    missing = sorted({"coordinator", "node_id", "vault"} - merged.keys())
    if missing:
        raise SettingsTrouble(f"{SETTINGS_FILE} lacks {', '.join(missing)}. Next: gpunion join")
    try:
        return _build(merged, state_dir)
    except ValueError as error:
        raise (
            error if isinstance(error, SettingsTrouble) else SettingsTrouble(f"{SETTINGS_FILE}: {error}")
        ) from None


def _vault(place: str, state_dir: Path) -> Path | None:
    if place == THROUGH_COORDINATOR:
        return None
    return state_dir / place  # an absolute place stays what it is


def _build(table: Mapping[str, Any], state_dir: Path) -> Settings:
    runtime = str(table.get("runtime", "sandbox"))
    if runtime not in RUNTIMES:
        raise SettingsTrouble(f"runtime {runtime!r} is not one of: {', '.join(RUNTIMES)}")
    gpu_source = str(table.get("gpu_source", "auto"))
    if gpu_source not in GPU_SOURCES:
        raise SettingsTrouble(f"gpu_source {gpu_source!r} is not one of: {', '.join(GPU_SOURCES)}")
    refuse_unknown(table.get("gpu_watch", {}), WATCH_KEYS, "[gpu_watch]")
    return Settings(
        state_dir=state_dir,
        coordinator=checked_url(str(table["coordinator"])),
        node_id=str(table["node_id"]),
        lab=str(table.get("lab", "")),
        building=str(table.get("building", "")),
        vault=_vault(str(table["vault"]), state_dir),
        credential_file=state_dir / str(table.get("credential_file", CREDENTIAL_FILE)),
        runtime=runtime,
        image=str(table["image"]) if table.get("image") else None,
        gpus=_gpus(table.get("gpu", [])),
        gpu_source=gpu_source,
        gpu_watch=watch_settings(table.get("gpu_watch", {})),
        cpus=positive(table.get("cpus", os.cpu_count() or 1), "cpus", CPUS_MAX),
        memory_bytes=amount_of_memory(table.get("memory", machine_memory_bytes()), "memory"),
        uplink_bps=positive(table.get("uplink_bps", DEFAULT_UPLINK_BPS), "uplink_bps", RATE_MAX_BPS),
        cache_bytes=amount_of_memory(table.get("cache", DEFAULT_CACHE_BYTES), "cache"),
        image_quota_bytes=amount_of_memory(
            table.get("image_quota", DEFAULT_IMAGE_QUOTA_BYTES), "image_quota"
        ),
        data_port=_port(table, "data_port", 8475),
        metrics_port=_port(table, "metrics_port", 8476),
        data_host=str(table.get("data_host", "")),
        keeps=_keeps(table.get("keeps")),
        terms=_terms(table.get("terms", {})),
        places=_own_places(table.get("places", {})),
    )


def _keeps(table: Any) -> Keeps | None:
    if table is None:
        return None
    refuse_unknown(table, KEEPS_KEYS, "[keeps]")
    return keeps_of(table)


def _own_places(table: Any) -> dict[str, dict[str, str]]:
    if not isinstance(table, dict):
        raise SettingsTrouble("places are written as [places.NAME] sections")
    for name, own in table.items():
        refuse_unknown(own, PLACE_KEYS, f"[places.{name}]")
    return {name: {key: str(value) for key, value in own.items()} for name, own in table.items()}


def _port(table: Mapping[str, Any], key: str, example: int) -> int:
    port = number(table.get(key, 0), key)
    if not 0 <= port <= PORT_MAX or port != int(port):
        raise SettingsTrouble(f"{key} {port:g} is no port; 0 opens none, {example} is as good as any")
    return int(port)


def _gpus(rows: Any) -> tuple[Gpu, ...]:
    if not isinstance(rows, list):
        raise SettingsTrouble("GPUs are written as [[gpu]] sections")
    gpus: list[Gpu] = []
    for row in rows:
        refuse_unknown(row, GPU_KEYS, "[[gpu]]")
        for _ in range(int(positive(row.get("count", 1), "gpu.count"))):
            if len(gpus) >= GPUS_MAX:
                raise SettingsTrouble(f"more than {GPUS_MAX} GPUs in one machine")
            model = str(row.get("model", "declared"))
            gpus.append(
                Gpu(
                    index=len(gpus),
                    model=model,
                    memory_bytes=amount_of_memory(row.get("memory", 8 * GIB), "gpu.memory"),
                    compute_capability=_version(row, "compute_capability", "8.6"),
                    cuda=_version(row, "cuda", "12.4"),
                    driver=str(row.get("driver", "")),
                    speed=positive(row.get("speed", declared_speed(model)), "gpu.speed", SPEED_MAX),
                )
            )
    return tuple(gpus)


def _version(row: Any, key: str, example: str) -> str:
    text = str(row.get(key, ""))
    if text and version_of(text) is None:
        raise SettingsTrouble(f'gpu.{key} {text[:40]!r} is no version; write it like {key} = "{example}"')
    return text


def _terms(table: Any) -> Terms:
    refuse_unknown(table, TERMS_KEYS, "[terms]")
    usual = Terms()
    memory = table.get("memory")
    return Terms(
        notice_s=number(table.get("notice_s", usual.notice_s), "terms.notice_s"),
        allow_unsandboxed=truth(table.get("allow_unsandboxed", False), "terms.allow_unsandboxed"),
        allow_labs=words(table.get("allow_labs", ()), "terms.allow_labs"),
        deny_labs=words(table.get("deny_labs", ()), "terms.deny_labs"),
        max_guests=int(number(table.get("max_guests", usual.max_guests), "terms.max_guests", GUESTS_MAX)),
        memory_bytes=None if memory is None else amount_of_memory(memory, "terms.memory"),
        autonomy_s=number(table.get("autonomy_s", usual.autonomy_s), "terms.autonomy_s"),
        images=words(table.get("images", ()), "terms.images"),
        egress=_places(table.get("egress", ())),
    )


def _places(value: Any) -> tuple[str, ...]:
    found = words(value, "terms.egress")
    for text in found:
        parse_place(text)
    return found


def refuse_unknown(table: Any, known: set[str], where: str) -> None:
    if not isinstance(table, dict):
        raise SettingsTrouble(f"{where} must be a table")
    for key in table:
        if key not in known:
            close = difflib.get_close_matches(key, sorted(known), n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(sorted(known))}"
            raise SettingsTrouble(f"{where} does not know {key!r}; {hint}")


def checked_url(url: str) -> str:
    url = url.rstrip("/")
    if not url.startswith(("http://", "https://")) or len(url) <= len("https://"):
        raise SettingsTrouble(
            f"{url!r} is no coordinator's address. It looks like https://campus.example:8765"
        )
    return url


def machine_memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    found = {key: environment.get(f"GPUNION_{key.upper()}") for key in ENVIRONMENT_KEYS}
    return {key: value for key, value in found.items() if value}
