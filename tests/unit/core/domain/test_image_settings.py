from __future__ import annotations

import pytest

from gpunion.domain.image_settings import ImageSettings, image_settings


def test_an_image_says_what_runs_as_whom_and_where() -> None:
    config = {"Entrypoint": ["python3"], "Cmd": ["train.py"], "User": "ada", "WorkingDir": "/srv"}
    asked = image_settings({**config, "Env": ["A=b", "NVIDIA_REQUIRE_CUDA=cuda>=12.4"]})
    assert asked == ImageSettings(
        entrypoint=("python3",), command=("train.py",), user="ada", directory="/srv", requires="cuda>=12.4"
    )


@pytest.mark.parametrize(
    ("entrypoint", "command", "program"),
    [
        (None, (), ("serve", "--all")),
        (None, ("--one",), ("serve", "--one")),
        (("sh", "-c"), ("date",), ("sh", "-c", "date")),
        ((), ("date",), ("date",)),
    ],
)
def test_a_job_may_name_another_program(
    entrypoint: tuple[str, ...] | None, command: tuple[str, ...], program: tuple[str, ...]
) -> None:
    image = ImageSettings(entrypoint=("serve",), command=("--all",))
    assert image.program(entrypoint, command) == program


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"Cmd": "train.py"}, "its Cmd is no list of words"),
        ({"Entrypoint": ["a\0b"]}, "its Entrypoint is no list of words"),
        ({"User": 7}, "its User is no text"),
        ({"WorkingDir": "/a\0b"}, "its WorkingDir is no text"),
    ],
)
def test_what_makes_no_sense_is_named(config: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        image_settings(config)


def test_a_requirement_that_nobody_could_read_is_none() -> None:
    assert image_settings({"Env": ["NVIDIA_REQUIRE_CUDA=cuda>=12.4\n"]}).requires == ""
