"""Tables and progress, with and without a terminal."""

from __future__ import annotations

import io
import json
import re

import pytest

from gpunion.cli.output.cells import folded, width_of
from gpunion.cli.output.progress import Progress
from gpunion.cli.output.screen import STYLES, Screen, Table

TABLE = Table(columns=("NAME", "PHASE"), rows=[["train", "running"], ["a", "failed"]])


class FakeTerminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_plain_table_is_aligned_and_has_no_blanks_at_the_end() -> None:
    screen = Screen(out=io.StringIO())
    screen.table(TABLE)
    assert isinstance(screen.out, io.StringIO)
    assert screen.out.getvalue() == "NAME   PHASE\ntrain  running\na      failed\n"


@pytest.mark.parametrize("encoding", ["ascii", "iso8859-1", "utf-8"])
def test_letters_that_a_terminal_lacks_end_no_command_and_spoil_no_json(encoding: str) -> None:
    shown, noted = io.BytesIO(), io.BytesIO()
    out, err = (io.TextIOWrapper(stream, encoding=encoding) for stream in (shown, noted))
    screen = Screen(out=out, err=err)
    screen.table(Table(columns=("NAME",), rows=[["日本"], ["\udcff"]]))
    assert b"NAME" in shown.getvalue()
    shown.truncate(0)
    shown.seek(0)
    value = {"name": "größe-日本"}
    screen.data(value)
    screen.note_data(value)
    for written in (shown, noted):
        assert json.loads(written.getvalue().decode(encoding)) == value


WIDE = Table(
    columns=("NODE", "PHASE", "GPUS", "HEARD"),
    rows=[["alpha", "sharing", "2 x A100 40 GiB, 1 x RTX4090 24 GiB", "3 s ago"], ["b", "left", "none", "-"]],
)


def test_on_a_narrow_terminal_the_widest_column_is_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "dumb")
    screen = Screen(out=FakeTerminal())
    screen.table(WIDE)
    assert isinstance(screen.out, io.StringIO)
    lines = screen.out.getvalue().splitlines()
    assert lines == WIDE.plain(40)
    assert max(map(len, lines)) <= 40
    assert lines[1] == "alpha  sharing  2 x A100 40      3 s ago"
    assert lines[2].strip() == "GiB, 1 x"
    assert lines[-1] == "b      left     none             -"


def test_letters_that_take_two_places_keep_columns_under_their_names() -> None:
    rows = [["日本語研究室", "alpha"], ["é\u0301", "beta"], ["vision", "gamma"]]
    lines = Table(columns=("LAB", "NODE"), rows=[*rows]).plain()
    assert [
        width_of(line[: line.index(word)])
        for line, word in zip(lines, ("NODE", "alpha", "beta", "gamma"), strict=True)
    ] == [14] * 4


@pytest.mark.parametrize("width", range(2, 40))
def test_no_line_of_a_folded_cell_is_wider_than_it_may_be(width: int) -> None:
    text = "日本語研究室の計算機 computational-linguistics -- a --node 1"
    lines = folded(text, width)
    assert max(map(width_of, lines)) <= width
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


def test_a_word_is_folded_at_its_dashes_and_broken_only_where_it_has_no_room() -> None:
    assert folded("computational-linguistics", 16) == ["computational-", "linguistics"]
    assert folded("the --node flag", 8) == ["the", "--node", "flag"]
    assert folded("日本語", 4) == ["日本", "語"]


def test_programs_that_read_a_table_get_a_line_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    screen = Screen(out=io.StringIO())
    screen.table(WIDE)
    assert isinstance(screen.out, io.StringIO)
    assert len(screen.out.getvalue().splitlines()) == 3


def test_on_a_terminal_the_words_stay_when_colour_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    screen = Screen(out=FakeTerminal())
    screen.table(TABLE)
    assert isinstance(screen.out, io.StringIO)
    shown = screen.out.getvalue()
    assert "\x1b[" in shown
    for word in ("NAME", "train", "running", "failed"):
        assert word in shown


def test_every_style_belongs_to_a_word() -> None:
    assert all(word and word == word.lower() for word in STYLES)


def test_progress_is_a_bar_on_a_terminal_and_leaves_nothing_behind() -> None:
    screen = Screen(out=io.StringIO(), err=FakeTerminal())
    with Progress(screen, 2, "seeds", redraw_s=0.0) as progress:
        progress.step()
        progress.interrupt("seed 0 failed")
        progress.step()
    assert isinstance(screen.err, io.StringIO)
    shown = screen.err.getvalue()
    assert "1/2 seeds" in shown
    assert "seed 0 failed\n" in shown
    assert shown.endswith("\r\033[K")


@pytest.mark.parametrize("columns", [12, 30, 80, 200])
def test_a_bar_fits_on_one_line_of_every_screen(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    screen = Screen(out=io.StringIO(), err=FakeTerminal())
    with Progress(screen, 1000, "things that have a rather long name", redraw_s=0.0) as progress:
        progress.reach(500)
    assert isinstance(screen.err, io.StringIO)
    line = screen.err.getvalue().split("\r\033[K")[1]
    assert line
    assert len(line) < columns
    assert ("[###" in line) == (columns >= 80)


def test_progress_without_a_terminal_is_silent_for_short_work() -> None:
    screen = Screen(out=io.StringIO(), err=io.StringIO())
    with Progress(screen, 2, "seeds") as progress:
        progress.step()
        progress.step()
    assert isinstance(screen.err, io.StringIO)
    assert screen.err.getvalue() == ""


HOSTILE = "all is\x1b]52;c;aGk=\x07 \x1b[2J\x9b2J\u202ewell\r"


def obeyed(shown: str) -> set[str]:
    return {letter for letter in shown if letter not in "\n\t" and not letter.isprintable()}


def test_nothing_that_a_machine_said_is_obeyed_by_a_terminal() -> None:
    screen = Screen(out=FakeTerminal(), err=FakeTerminal())
    screen.line(HOSTILE)
    screen.note(HOSTILE)
    screen.data({"detail": HOSTILE})
    screen.record({"detail": HOSTILE})
    Screen(out=screen.out, err=screen.err, as_json=True).note_data({"detail": HOSTILE})
    for stream in (screen.out, screen.err):
        assert isinstance(stream, io.StringIO)
        assert "all is" in stream.getvalue()
        assert obeyed(stream.getvalue()) == set()


def test_a_cell_of_a_table_has_one_line_and_no_orders_for_a_terminal() -> None:
    for stream in (io.StringIO(), FakeTerminal()):
        Screen(out=stream).table(Table(columns=("NAME",), rows=[[f"a\nb{HOSTILE}"]]))
        without_colours = re.sub("\x1b\\[[0-9;]*m", "", stream.getvalue())
        assert obeyed(without_colours) == set()
        assert "a b" in without_colours


def test_json_keeps_every_letter_of_what_a_machine_said() -> None:
    screen = Screen(out=io.StringIO())
    screen.data({"detail": HOSTILE})
    assert isinstance(screen.out, io.StringIO)
    assert json.loads(screen.out.getvalue()) == {"detail": HOSTILE}


def test_what_a_program_prints_goes_into_a_file_as_it_came() -> None:
    screen = Screen(out=io.StringIO())
    screen.program(HOSTILE)
    assert isinstance(screen.out, io.StringIO)
    assert screen.out.getvalue() == HOSTILE


def test_on_a_terminal_a_program_colours_its_words_and_draws_its_bars_and_no_more() -> None:
    screen = Screen(out=FakeTerminal())
    screen.program("\x1b[1;31mloss\x1b[0m 0.5\r\x1b[K99 %\n\x1b[A" + HOSTILE + "\x1b")
    assert isinstance(screen.out, io.StringIO)
    shown = screen.out.getvalue()
    assert shown.startswith("\x1b[1;31mloss\x1b[0m 0.5\r\x1b[K99 %\n\x1b[A")
    rest = shown.removeprefix("\x1b[1;31mloss\x1b[0m 0.5\r\x1b[K99 %\n\x1b[A")
    assert obeyed(rest) == {"\r"}
