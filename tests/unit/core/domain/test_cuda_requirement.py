"""What an image's makers require of a GPU is found among its variables."""

from __future__ import annotations

import pytest

from gpunion.domain.cuda_requirement import REQUIREMENT_MAX_CHARS
from gpunion.domain.image_settings import image_settings


@pytest.mark.parametrize(
    ("variables", "found"),
    [
        (["PATH=/bin", "NVIDIA_REQUIRE_CUDA=cuda>=12.4 brand=tesla"], "cuda>=12.4 brand=tesla"),
        (["NVIDIA_REQUIRE_CUDA="], ""),
        (["NVIDIA_REQUIRE_CUDA"], ""),
        (["NVIDIA_REQUIRE_CUDA=cuda>=12.4\x1b[2J"], ""),
        ([f"NVIDIA_REQUIRE_CUDA={'x' * (REQUIREMENT_MAX_CHARS + 1)}"], ""),
        ([], ""),
    ],
)
def test_a_requirement_is_read_from_an_image_and_one_that_makes_no_sense_is_none(
    variables: list[str], found: str
) -> None:
    assert image_settings({"Env": variables}).requires == found
    assert image_settings({}).requires == ""
