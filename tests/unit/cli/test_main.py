"""From words to an exit code."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from gpunion.cli.context import Context
from gpunion.cli.exits import MEANINGS
from gpunion.cli.main import main
from gpunion.cli.output.screen import Screen
from gpunion.cli.registry import COMMANDS, Group
from gpunion.sdk.errors import NotACoordinator, Unreachable
from tests.unit.cli.campus_double import CampusDouble, Terminal, a_problem


def test_alone_it_lists_every_command_in_its_group_and_every_exit_code(gpunion: Terminal) -> None:
    assert gpunion() == 0
    for group in Group:
        assert group.value in gpunion.out
    for command in COMMANDS:
        assert f"  {command.name} " in gpunion.out
    for code, meaning in MEANINGS.items():
        assert f"{code:>3}  {meaning}" in gpunion.out


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_explains_itself(
    gpunion: Terminal, command: object, capsys: pytest.CaptureFixture[str]
) -> None:
    name = command.name  # type: ignore[attr-defined]
    with pytest.raises(SystemExit) as ended:
        gpunion(*name.split(), "--help")
    assert ended.value.code == 0
    assert f"usage: gpunion {name}" in capsys.readouterr().out
    assert gpunion("help", *name.split()) == 0
    assert f"usage: gpunion {name}" in gpunion.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sumbit"], "no command 'sumbit'; did you mean submit?"),
        (["frobnicate"], "no command 'frobnicate'"),
        (["--josn", "ps"], "no flag --josn; did you mean --json?"),
        (["--versoin"], "no flag --versoin; did you mean --version?"),
        (["submit", "--aray", "3"], "gpunion submit has no flag --aray\n"),
        (["sim"], "needs a verb: sim run, sim fuzz, sim scenarios"),
        (["sim", "fuz"], "no command 'sim fuz'; did you mean sim fuzz?"),
        (["coordinator", "tokn"], "does not know what to do with 'tokn'"),
        (["agent", "join"], "Next: gpunion join --help"),
    ],
)
def test_a_mistyped_command_is_answered_with_what_was_meant(
    gpunion: Terminal, words: list[str], message: str
) -> None:
    assert gpunion(*words) == 2
    assert message in gpunion.err


def test_flags_for_all_commands_may_come_first(gpunion: Terminal) -> None:
    assert gpunion("--json", "--url=http://x.example", "--token", "t", "ps") == 0
    assert json.loads(gpunion.out) == {"jobs": []}


def test_a_flag_of_another_command_is_not_taken_for_ours(gpunion: Terminal) -> None:
    """`--json` after `--` belongs to the guest's program."""
    assert gpunion("submit", "--no-dir", "--", "prog", "--json") == 0
    assert gpunion.out.startswith("job-")


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (a_problem(401, "unauthenticated", "the token is not known"), 4, "gpunion login"),
        (a_problem(403, "forbidden", "not yours"), 4, "not yours"),
        (a_problem(404, "not_found", "no such thing"), 3, "no such thing"),
        (a_problem(409, "job_over", "it is over"), 5, "it is over"),
        (a_problem(503, "busy", "too much to do"), 6, "do the right thing"),
        (
            a_problem(422, "invalid_request", "wrong", errors=[{"at": "body.name", "message": "too long"}]),
            2,
            "Why: name: too long",
        ),
        (Unreachable("http://x.example", "connection refused"), 6, "connection refused"),
        (NotACoordinator("http://x.example", 200), 6, "not a coordinator"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_refusal_has_its_exit_code_and_its_reason(
    gpunion: Terminal, campus: CampusDouble, error: Exception, code: int, words: str
) -> None:
    campus.refuses = error
    assert gpunion("ps") == code
    assert words in gpunion.err
    assert "Traceback" not in gpunion.err
    assert gpunion.out == ""


def test_an_error_is_json_for_those_who_asked_for_json(gpunion: Terminal, campus: CampusDouble) -> None:
    campus.refuses = Unreachable("http://x.example", "connection refused")
    assert gpunion("ps", "--json") == 6
    assert json.loads(gpunion.err) == {
        "error": "the coordinator at http://x.example cannot be reached",
        "why": "connection refused",
        "next_step": "check the address and that it runs: gpunion doctor",
        "exit_code": 6,
    }


def test_who_asks_for_tls_where_none_is_spoken_is_told_the_other_address(
    gpunion: Terminal, campus: CampusDouble
) -> None:
    campus.refuses = Unreachable("https://x.example:8765", "[SSL: WRONG_VERSION_NUMBER] wrong version number")
    assert gpunion("ps") == 6
    assert "Next: try http://x.example:8765\n" in gpunion.err


def test_ctrl_c_while_a_job_is_handed_in_says_that_it_may_run(
    gpunion: Terminal, campus: CampusDouble
) -> None:
    def interrupted(_job: object) -> dict[str, object]:
        raise KeyboardInterrupt

    campus.submit = interrupted  # type: ignore[method-assign,assignment]
    assert gpunion("submit", "--no-dir", "--", "true") == 130
    assert "may run now. Next: gpunion ps" in gpunion.err


def test_an_answer_that_never_came_is_a_timeout(gpunion: Terminal, campus: CampusDouble) -> None:
    class TimeoutException(Exception):
        """Called as in httpx."""

    unreachable = Unreachable("http://x.example", "timed out")
    unreachable.__cause__ = TimeoutException()
    campus.refuses = unreachable
    assert gpunion("ps") == 124


def test_a_bug_is_one_line_and_a_file_and_with_debug_a_traceback(
    gpunion: Terminal, campus: CampusDouble
) -> None:
    campus.refuses = ZeroDivisionError("by the nodes")
    assert gpunion("ps") == 1
    assert "a bug in gpunion: ZeroDivisionError: by the nodes" in gpunion.err
    assert "Traceback" not in gpunion.err
    details = Path(gpunion.err.partition("the details are in ")[2].partition(";")[0])
    assert "Traceback" in details.read_text()
    details.unlink()
    gpunion.environment["GPUNION_DEBUG"] = "1"
    with pytest.raises(ZeroDivisionError):
        gpunion("ps")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["submit", "--name", "a\udcff", "--no-dir", "--", "true"],
            "bytes that are not text here: '\\udcff'",
        ),
        (["ps", "--url", "http://127.0.0.1:9", "--token", "sécret"], "a token cannot have '\\xe9' in it"),
    ],
)
def test_what_is_no_text_is_told_and_no_bug(words: list[str], message: str, tmp_path: Path) -> None:
    """With the real client, which opens no connection for it."""
    screen = Screen(out=io.StringIO(), err=io.StringIO())
    environment = {"HOME": str(tmp_path), "GPUNION_URL": "http://127.0.0.1:9", "GPUNION_TOKEN": "t"}
    assert main(words, Context(screen=screen, environment=environment, here=tmp_path)) == 2
    assert isinstance(screen.err, io.StringIO)
    told = screen.err.getvalue()
    assert message in told
    assert "cret" not in told


def test_ctrl_c_is_no_traceback(gpunion: Terminal, campus: CampusDouble) -> None:
    campus.refuses = KeyboardInterrupt()  # type: ignore[assignment]
    assert gpunion("ps") == 130


def test_the_version_is_known_here_too(gpunion: Terminal) -> None:
    assert gpunion("--json", "--version") == 0
    assert gpunion.out.startswith("gpunion ")


def test_without_a_campus_the_way_to_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in (
        "GPUNION_URL",
        "GPUNION_TOKEN",
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
        "GPUNION_COORDINATOR_DATA_DIR",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert main(["ps"]) == 6
    assert "gpunion login URL --token TOKEN" in capsys.readouterr().err
