"""What a job may ask to have installed on somebody else's machine."""

from __future__ import annotations

import pytest

from gpunion.domain.lockfile import (
    WHEEL_FOLDER_OPTIONS,
    BadLockfile,
    Lockfile,
    parse_lockfile,
    refuse_other_kinds,
)

LONG_OPTION = WHEEL_FOLDER_OPTIONS[1]


def test_a_lockfile_as_tools_write_it() -> None:
    text = f"""\
# made by a tool
{LONG_OPTION} ./wheels
-f more/
--only-binary :all:
numpy==2.1.0 \\
    --hash=sha256:{"a" * 64} \\
    --hash=sha256:{"b" * 64}  # via torch
torch[cuda]==2.5.0 ; python_version >= "3.11" --hash=sha256:{"c" * 64}
"""
    assert parse_lockfile(text) == Lockfile(
        requirements=(
            f"numpy==2.1.0 --hash=sha256:{'a' * 64} --hash=sha256:{'b' * 64}",
            f'torch[cuda]==2.5.0 ; python_version >= "3.11" --hash=sha256:{"c" * 64}',
        ),
        wheel_folders=("wheels", "more"),
        no_index=False,
        hashed=True,
        loose=(),
    )


def test_packages_without_an_exact_version_are_named() -> None:
    found = parse_lockfile("--no-index\nnumpy\nscipy>=1.0,<2\npandas==2.*\nflask == 3.0.0\n")
    assert (found.loose, found.hashed, found.no_index) == (("numpy", "scipy", "pandas"), False, True)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("thing @ file:///etc", "travels as a wheel"),
        ("git+https://host/x", "travels as a wheel"),
        ("./setup", "travels as a wheel"),
        ("/abs/thing.whl", "travels as a wheel"),
        ("-e .", "PYTHONPATH"),
        ("-r other.txt", "into one file"),
        ("--index" + "-url https://host", "the owner of the machine decides"),
        ("--no-binary :all:", "the owner of the machine decides"),
        (f"{LONG_OPTION} https://host", "not a folder"),
        (f"{LONG_OPTION}=../up", "not a folder"),
        ("-f /etc", "not a folder"),
        ("numpy=1", "not understood"),
        ("numpy==1; --config-settings x", "not understood"),
        ("a b c", "not understood"),
    ],
)
def test_what_is_not_for_a_job_to_say_is_refused_with_its_line(line: str, words: str) -> None:
    with pytest.raises(BadLockfile, match=words) as refused:
        parse_lockfile(f"numpy==1.0\n{line}\n")
    assert "line 2" in str(refused.value)


def test_hashes_for_all_or_for_none() -> None:
    with pytest.raises(BadLockfile, match="all of them"):
        parse_lockfile(f"a==1 --hash=sha256:{'a' * 64}\nb==2\n")


def test_other_kinds_are_told_how_to_become_one() -> None:
    with pytest.raises(BadLockfile, match="uv export"):
        refuse_other_kinds("project/uv.lock")
    refuse_other_kinds("requirements.txt")
