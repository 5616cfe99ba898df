"""gpunion.toml: read whole, or refused with the place and a suggestion."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpunion.cli.exits import NOT_FOUND, USAGE, Trouble
from gpunion.cli.jobs.job_file import JobFile, read_job_file
from tests.unit.cli.campus_double import Terminal

WHOLE = """
name = "vit"
gang = 2
command = "python train.py --name 'two words'"
priority = "high"
lab = "vision"
expect = "2h"
environment = "./env/requirements.txt"

[resources]
gpus = 2
vram = "20GB"
models = ["A100"]
exclude = ["T4"]
cpus = 4
memory = "8GiB"

[checkpoint]
max_interval = "60s"
min_interval = 5
encrypt = true

[env]
SEED = "1"
"""


def read(tmp_path: Path, text: str) -> JobFile:
    (tmp_path / "gpunion.toml").write_text(text)
    return read_job_file(tmp_path / "gpunion.toml")


def test_a_whole_file_becomes_the_request(tmp_path: Path) -> None:
    file = read(tmp_path, WHOLE)
    assert file.job == {
        "name": "vit",
        "command": ["python", "train.py", "--name", "two words"],
        "priority": "high",
        "lab": "vision",
        "gang": 2,
        "expected_s": 7200.0,
        "resources": {
            "gpus": 2,
            "vram": 20 * 10**9,
            "models": ["A100"],
            "exclude": ["T4"],
            "cpus": 4.0,
            "memory": 8 * 2**30,
        },
        "checkpoint": {"max_interval_s": 60.0, "min_interval_s": 5.0, "encrypt": True},
        "environment": {"SEED": "1"},
        "lockfile": "env/requirements.txt",
    }
    assert file.folder == tmp_path


def test_false_means_that_nothing_travels(tmp_path: Path) -> None:
    assert read(tmp_path, "dir = false").folder is None


def test_a_program_in_the_place_of_a_job_file_is_answered_with_how_to_run_it(gpunion: Terminal) -> None:
    (gpunion.here / "train.py").write_text("import this\n")
    assert gpunion("submit", "train.py") == 2
    assert "gpunion submit -- python train.py" in gpunion.err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[environment]\nA = '1'", "variables are in the section"),
        ("nmae = 'x'", "unknown key nmae; did you mean name?"),
        ("[resources]\ngpu = 1", "unknown key resources.gpu; did you mean gpus?"),
        ("zzz = 1", "known are name, command"),
        ("[resources]\nvram = 'lots'", "resources.vram: 'lots' is not a size"),
        ("[resources]\ngpus = -1", "resources.gpus: -1 is not a whole number"),
        ("[checkpoint]\nmax_interval = 'often'", "checkpoint.max_interval: 'often' is not a duration"),
        ("[checkpoint]\nencrypted = true", "unknown key checkpoint.encrypted; did you mean encrypt?"),
        ("[checkpoint]\nencrypt = 'yes'", "checkpoint.encrypt: 'yes' is not true or false"),
        ("[windows]\nshortest = 0", "windows.shortest"),
        ("[windows]\nvram = 'guessed'", "windows.vram: 'guessed' is not"),
        ("[windows]\nsafe_every = 0", "windows.safe_every: 0 is not a number of steps"),
        ("[windows]\nshort = '5m'", "unknown key windows.short; did you mean shortest?"),
        ("priority = 'urgent'", "priority: 'urgent' is not low, normal or high"),
        ("command = [1, 2]", "command: [1, 2] is not a list of texts"),
        ('command = "unclosed \'quote"', "command: No closing quotation"),
        ("resources = 3", "resources: this is a table"),
        ("[env]\nSEED = 1", "env: SEED = 1 is not a text"),
        ("dir = 3", "dir: 3 is neither a directory nor false"),
        ("name = 3", "name: 3 is not a text"),
        ("[resources]\ncpus = 0", "resources.cpus: 0 is not a number above zero"),
        ("[resources]\nmemory = '0GB'", "resources.memory: '0GB' is no amount of memory"),
        ("replicas = 0", "replicas: 0 is not a number of places"),
        ("[checkpoint]\ncommand = ''", "checkpoint.command: it names no program"),
        ("[resources]\ncpus = true", "resources.cpus: True is not a number"),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(Trouble) as raised:
        read(tmp_path, text)
    assert words in raised.value.what
    assert raised.value.code == USAGE


def test_a_file_that_is_not_there_or_not_toml_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(Trouble) as raised:
        read_job_file(tmp_path / "gpunion.toml")
    assert raised.value.code == NOT_FOUND
    with pytest.raises(Trouble, match=r"gpunion\.toml is not TOML") as raised:
        read(tmp_path, 'name = "train"\ngpus = = 2\n')
    assert raised.value.code == USAGE
    assert "line 2" in raised.value.why
    assert "mend that line" in raised.value.next_step
    (tmp_path / "gpunion.toml").write_bytes(b'name = "\xff"\n')
    with pytest.raises(Trouble, match="no text") as raised:
        read_job_file(tmp_path / "gpunion.toml")
    assert raised.value.code == USAGE


def test_a_file_asks_to_run_in_windows(tmp_path: Path) -> None:
    wish = 'atomizable = true\ncommand = "x"\n[windows]\nshortest = "5m"\nvram = "declared"\nsafe_every = 4\n'
    job = read(tmp_path, wish).job
    assert job["atomizable"] is True
    assert job["windows"] == {"shortest_s": 300.0, "vram": "declared", "safe_every": 4}
