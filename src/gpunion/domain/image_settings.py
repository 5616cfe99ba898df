"""What an image's makers meant to be run in it, as its configuration says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpunion.domain.cuda_requirement import REQUIREMENT_MAX_CHARS, VARIABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSettings:
    entrypoint: tuple[str, ...] = ()  # its ENTRYPOINT
    command: tuple[str, ...] = ()  # its CMD
    user: str = ""  # its USER: names or numbers, "user" or "user:group"; "": root, as its makers had it
    directory: str = ""  # its WORKDIR
    requires: str = ""  # its NVIDIA_REQUIRE_CUDA

    def program(self, entrypoint: tuple[str, ...] | None, command: tuple[str, ...]) -> tuple[str, ...]:
        """What runs for a job that says this, as the engines themselves have it; empty: nothing.

        `entrypoint` None: the image's own. One that the job names leaves nothing of the image's command.
        """
        if entrypoint is not None:
            return (*entrypoint, *command)
        return (*self.entrypoint, *(command or self.command))


def image_settings(config: Mapping[str, object]) -> ImageSettings:
    """`config`: the part of that name of an image's configuration. ValueError where it makes no sense."""
    return ImageSettings(
        entrypoint=_words(config, "Entrypoint"),
        command=_words(config, "Cmd"),
        user=_text(config, "User"),
        directory=_text(config, "WorkingDir"),
        requires=_requirement(config),
    )


def _requirement(config: Mapping[str, object]) -> str:
    variables = dict(word.partition("=")[::2] for word in _words(config, "Env"))
    asked = variables.get(VARIABLE, "")
    return asked if len(asked) <= REQUIREMENT_MAX_CHARS and asked.isprintable() else ""


def _words(config: Mapping[str, object], name: str) -> tuple[str, ...]:
    value = config.get(name) or []
    if not isinstance(value, list) or not all(isinstance(word, str) and "\0" not in word for word in value):
        raise ValueError(f"its {name} is no list of words")
    return tuple(value)


def _text(config: Mapping[str, object], name: str) -> str:
    value = config.get(name) or ""
    if not isinstance(value, str) or "\0" in value:
        raise ValueError(f"its {name} is no text")
    return value
