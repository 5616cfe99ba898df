from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpunion.agent.settings import SettingsTrouble, load_settings, settings_of, state_dir_of
from gpunion.domain.resources import GIB

LEAST = {"coordinator": "https://campus.example:8765/", "node_id": "a1", "vault": "/srv/vault"}


def parse(tmp_path: Path, environment: dict[str, str] | None = None, **table: Any) -> Any:
    return settings_of({**LEAST, **table}, tmp_path, environment or {})


def test_a_declared_gpu_is_as_fast_as_its_name_says_unless_its_owner_says_otherwise(tmp_path: Path) -> None:
    names = ["RTX 3090", "RTX3090", "rtx-3090", "RTX3090Ti", "NVIDIA A100-SXM4-80GB", "Voodoo 2"]
    found = parse(tmp_path, gpu=[{"model": name} for name in names])
    assert [gpu.speed for gpu in found.gpus] == [0.45, 0.45, 0.45, 0.45, 1.0, 1.0]
    assert parse(tmp_path, gpu=[{"model": "H100", "speed": 0.5}]).gpus[0].speed == 0.5


def test_the_least_settings_are_enough(tmp_path: Path) -> None:
    settings = parse(tmp_path)
    assert settings.coordinator == "https://campus.example:8765"
    assert settings.vault == Path("/srv/vault")
    assert settings.credential_file == tmp_path / "credential"
    assert settings.memory_bytes > 0
    assert settings.terms.allow_unsandboxed is False


def test_gpus_terms_and_amounts_are_read_as_people_write_them(tmp_path: Path) -> None:
    settings = parse(
        tmp_path,
        memory="16 GiB",
        cpus=8,
        gpu=[{"model": "RTX 3090", "memory": "24GiB", "speed": 0.8, "count": 2, "cuda": 12.4}],
        terms={"notice_s": 30, "deny_labs": ["beta"], "memory": "8 GiB"},
    )
    assert settings.memory_bytes == 16 * GIB
    assert [(gpu.index, gpu.model, gpu.memory_bytes) for gpu in settings.gpus] == [
        (0, "RTX 3090", 24 * GIB),
        (1, "RTX 3090", 24 * GIB),
    ]
    assert settings.gpus[1].cuda == "12.4"
    assert settings.terms.memory_bytes == 8 * GIB
    assert not settings.terms.admits_lab("beta")


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"coordinater": "x"}, "did you mean 'coordinator'"),
        ({"gpu": [{"modell": "x"}]}, "did you mean 'model'"),
        ({"terms": {"notice": 3}}, "did you mean 'notice_s'"),
        ({"terms": {"memory_bytes": 3}}, "did you mean 'memory'"),
        ({"terms": []}, "must be a table"),
        ({"memory": "lots"}, "no amount of memory"),
        ({"memory": -3}, "no amount of memory"),
        ({"cpus": 0}, "more than zero"),
        ({"cpus": "nan"}, "must be a number"),
        ({"cpus": True}, "must be a number"),
        ({"runtime": "magic"}, "not one of: sandbox"),
        ({"coordinator": "campus"}, "no coordinator's address"),
        ({"terms": {"allow_labs": "beta"}}, "list of words"),
        ({"terms": {"allow_unsandboxed": "yes"}}, "true or false"),
        ({"gpu": {"model": "x"}}, "[[gpu]]"),
        ({"gpu": [{"count": 65}]}, "more than 64"),
        ({"gpu": [{"compute_capability": "ampere"}]}, 'write it like compute_capability = "8.6"'),
        ({"gpu": [{"cuda": "12.x"}]}, 'write it like cuda = "12.4"'),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(tmp_path: Path, table: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsTrouble) as trouble:
        parse(tmp_path, **table)
    assert words in str(trouble.value)


def test_the_environment_counts_over_the_file(tmp_path: Path) -> None:
    settings = parse(tmp_path, {"GPUNION_VAULT": "/mnt/other", "GPUNION_CPUS": "2", "GPUNION_JOB_ID": "x"})
    assert settings.vault == Path("/mnt/other")
    assert settings.cpus == 2.0


def test_a_machine_that_has_not_joined_is_told_how_to(tmp_path: Path) -> None:
    with pytest.raises(SettingsTrouble, match="gpunion join"):
        load_settings(tmp_path, {})


def test_a_file_without_the_essentials_names_them(tmp_path: Path) -> None:
    with pytest.raises(SettingsTrouble, match="coordinator, node_id, vault"):
        settings_of({}, tmp_path, {})


def test_broken_toml_is_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "agent.toml").write_text("coordinator = ")
    with pytest.raises(SettingsTrouble, match="cannot be read"):
        load_settings(tmp_path, {})


def test_a_credential_that_others_can_read_is_refused(tmp_path: Path) -> None:
    settings = parse(tmp_path)
    with pytest.raises(SettingsTrouble, match="gpunion join"):
        settings.credential()
    settings.credential_file.write_text("secret\n")
    settings.credential_file.chmod(0o644)
    with pytest.raises(SettingsTrouble, match="chmod 600"):
        settings.credential()
    settings.credential_file.chmod(0o600)
    assert settings.credential() == "secret"


def test_a_given_state_directory_is_made_absolute() -> None:
    assert state_dir_of("here").is_absolute()


@pytest.mark.parametrize(
    "wrong",
    [
        {"gpu": [{"model": "H100", "speed": 101}]},
        {"cpus": 1e9},
        {"uplink_bps": 1e18},
        {"terms": {"max_guests": 10_000}},
        {"terms": {"deny_labs": ["x"] * 1001}},
        {"terms": {"deny_labs": ["x" * 40_000]}},
    ],
)
def test_settings_beyond_what_a_campus_can_be_told_are_refused_in_words(
    tmp_path: Path, wrong: dict[str, Any]
) -> None:
    with pytest.raises(SettingsTrouble, match="more than"):
        parse(tmp_path, **wrong)
