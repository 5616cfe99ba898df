"""Variables of a notebook, saved and brought back into another: in namespaces, without a kernel."""

from __future__ import annotations

import io
import pickle
import shutil
import sys
import time
from pathlib import Path
from typing import Any, ClassVar

import pytest

pytestmark = pytest.mark.requires("cloudpickle")


def a_notebook(code: str = "") -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "__main__", "__builtins__": __builtins__}
    exec(code, namespace)
    return namespace


def save(namespace: dict[str, Any], into: Path, **words: Any) -> Any:
    from gpunion.sdk.session.variables import saving

    into.mkdir(exist_ok=True)
    return saving.save(namespace, saving.Order(into=into, **{"limit_s": 60.0, **words}))


def load(folder: Path) -> tuple[dict[str, Any], dict[str, str]]:
    from gpunion.sdk.session.variables import loading

    fresh = a_notebook()
    lacking = loading.load(folder, fresh)
    return fresh, {one.name: one.why for one in lacking}


def test_what_shares_an_object_shares_it_afterwards(tmp_path: Path) -> None:
    about = save(
        a_notebook(
            "class Weights(list): pass\nweights = Weights([1.0, 2.0])\n"
            "optimizer = {'drives': weights}\nalone = [3]"
        ),
        tmp_path / "s",
    )
    fresh, lacking = load(tmp_path / "s")
    assert lacking == {}
    assert fresh["optimizer"]["drives"] is fresh["weights"]
    assert isinstance(fresh["weights"], fresh["Weights"])
    assert sorted(map(sorted, (group.names for group in about.groups))) == [
        ["Weights", "optimizer", "weights"],
        ["alone"],
    ]


def test_a_function_of_the_notebook_sees_what_is_set_later(tmp_path: Path) -> None:
    save(a_notebook("scale = 2\ndef times(x): return x * scale\nless = lambda x: x - scale"), tmp_path / "s")
    fresh, _ = load(tmp_path / "s")
    fresh["scale"] = 10
    assert (fresh["times"](3), fresh["less"](3)) == (30, -7)


def test_what_cannot_be_saved_is_told_by_name_and_costs_nothing_else(tmp_path: Path) -> None:
    notebook = a_notebook(
        "import threading\nlines = (n for n in range(3))\nlock = threading.Lock()\nfine = [1]\n"
        "class Sly:\n def __reduce__(self): raise SystemExit('no')\nsly = Sly()\n"
        f"file = open({str(Path(__file__))!r})"
    )
    save(notebook, tmp_path / "s")
    notebook["file"].close()
    fresh, lacking = load(tmp_path / "s")
    assert fresh["fine"] == [1]
    assert fresh["threading"] is sys.modules["threading"]
    assert lacking["lines"] == "a generator cannot be saved"
    assert lacking["file"] == "a TextIOWrapper cannot be saved"
    assert lacking.keys() == {"lines", "file", "lock", "sly"}


def test_what_ipython_has_there_is_not_the_users(tmp_path: Path) -> None:
    hidden = {"In": ["", "1+1"], "exit": object()}
    notebook = a_notebook("_own = 1\n_3 = 'an output'\n_i3 = '1+1'\n_ = 2\n__ = 3") | hidden
    about = save(notebook, tmp_path / "s", hidden=hidden)
    assert [name for group in about.groups for name in group.names] == ["_own"]
    save(notebook | {"In": "mine now"}, tmp_path / "t", hidden=hidden)
    assert load(tmp_path / "t")[0]["In"] == "mine now"


def test_what_there_is_no_time_for_is_taken_over_and_dated(tmp_path: Path) -> None:
    notebook = a_notebook("large = [1, 2]\nsmall = 'a'")
    save(notebook, tmp_path / "before")
    notebook["large"].append(3)
    about = save(notebook, tmp_path / "now", limit_s=-1.0, older=tmp_path / "before")
    fresh, lacking = load(tmp_path / "now")
    assert fresh["large"] == [1, 2]
    assert lacking["large"].startswith("as it was at ")
    assert about.size_bytes > 0


def test_without_time_and_without_an_older_save_it_is_told_so(tmp_path: Path) -> None:
    save(a_notebook("large = [1, 2]"), tmp_path / "s", limit_s=-1.0)
    assert load(tmp_path / "s")[1] == {"large": "no time was left to save it"}


def test_a_thousand_variables_are_a_few_files(tmp_path: Path) -> None:
    """Each file is named in a message that has a limit."""
    names = "\n".join(f"v{number} = [{number}]" for number in range(1000))
    save(a_notebook(f"{names}\nlarge = bytearray(2_000_000)"), tmp_path / "s")
    assert sorted(path.name for path in (tmp_path / "s").iterdir()) == ["about.json", "group-1", "groups"]
    fresh, lacking = load(tmp_path / "s")
    assert lacking == {}
    assert (fresh["v7"], fresh["v999"], len(fresh["large"])) == ([7], [999], 2_000_000)


def test_a_save_that_is_cut_short_counts_for_nothing(tmp_path: Path) -> None:
    save(a_notebook("x = 1"), tmp_path / "s")
    (tmp_path / "s" / "about.json").unlink()
    assert load(tmp_path / "s")[1] == {"all variables": "nothing was saved of this kernel"}


@pytest.mark.parametrize("damage", [b"", b"\x80\x05garbage", pickle.dumps({"other": 1}), pickle.dumps(7)])
def test_a_damaged_group_costs_its_own_variables(tmp_path: Path, damage: bytes) -> None:
    about = save(a_notebook("x = [1]\ny = [2]"), tmp_path / "s")
    hit = next(group for group in about.groups if group.names == ("x",))
    with open(tmp_path / "s" / hit.file, "r+b") as file:
        file.seek(hit.at)
        file.write((damage + bytes(hit.size_bytes))[: max(hit.size_bytes, 1)])
    fresh, lacking = load(tmp_path / "s")
    assert fresh["y"] == [2]
    assert lacking.keys() == {"x"}
    assert "other" not in fresh


@pytest.mark.parametrize("about", ["", "[]", "{}", '{"format": 1}', '{"format": 99}', "null", "\xff"])
def test_an_about_file_that_is_none_is_no_snapshot(tmp_path: Path, about: str) -> None:
    (tmp_path / "about.json").write_text(about, encoding="latin-1")
    assert "all variables" in load(tmp_path)[1]


def test_a_group_is_looked_for_in_its_own_folder_only(tmp_path: Path) -> None:
    save(a_notebook("x = [1]"), tmp_path / "s")
    (tmp_path / "elsewhere").write_bytes(pickle.dumps({"x": "taken"}))
    about = tmp_path / "s" / "about.json"
    about.write_text(about.read_text().replace('"file": "groups"', '"file": "../elsewhere"'))
    fresh, lacking = load(tmp_path / "s")
    assert "x" not in fresh
    assert "x" in lacking


def test_a_stream_is_given_up_in_its_middle_when_the_time_is_over() -> None:
    from gpunion.sdk.session.variables.saving import _InTime, _Late

    left_s = [1.0]
    sink = _InTime(io.BytesIO(), lambda: left_s[0])
    sink.write(b"x")
    left_s[0] = 0.0
    with pytest.raises(_Late):
        sink.write(b"x")


def test_the_line_for_a_kernel_that_was_given_up_does_nothing(tmp_path: Path) -> None:
    """It waited behind a long cell."""
    from gpunion.sdk.session.variables import in_kernel

    code = in_kernel.line(
        "save", into=str(tmp_path / "gone"), older="", limit_s=5.0, until=time.time() - 1, beside=False
    )
    exec(code, {})
    assert not (tmp_path / "gone").exists()


class Slow:
    """Takes long to be packed, and cannot be cut short."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __reduce__(self) -> Any:
        until_s = time.monotonic() + self.seconds
        while time.monotonic() < until_s:
            pass
        return (Slow, (self.seconds,))


class Takes:
    """Packing it takes a folder away, as whoever gives the save up does."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> Any:
        shutil.rmtree(self.place, ignore_errors=True)
        return (list, ())


def test_one_that_takes_all_the_time_to_look_at_does_not_cost_the_small_ones(tmp_path: Path) -> None:
    old = a_notebook("version = 'old'; rows = [1]") | {"slow": Slow(0.0)}
    save(old, tmp_path / "before")
    now = a_notebook("version = 'new'; rows = [1, 2]") | {"slow": Slow(1.0)}
    save(dict(reversed(now.items())), tmp_path / "now", limit_s=0.5, older=tmp_path / "before")
    fresh, lacking = load(tmp_path / "now")
    assert (fresh["version"], fresh["rows"]) == ("new", [1, 2])
    assert fresh["slow"].seconds == 0.0
    assert list(lacking) == ["slow"]
    assert lacking["slow"].startswith("as it was at")


class Asks:
    """Looks, while it is packed, at what has been told of the save so far."""

    told: ClassVar[list[Any]] = []

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> Any:
        from gpunion.sdk.session.variables.snapshot import read_about

        self.told.append(read_about(self.place))
        return (list, ())


def test_what_is_written_counts_also_where_the_next_one_never_ends(tmp_path: Path) -> None:
    save(a_notebook("version = 'old'"), tmp_path / "before")
    notebook = a_notebook("version = 'new'") | {"ends": Asks(tmp_path / "s")}
    save(notebook, tmp_path / "s", older=tmp_path / "before")
    so_far = Asks.told[0]
    assert "version" in {name for group in so_far.groups for name in group.names}
    assert [(one.name, one.why) for one in so_far.unsaved] == [("ends", "no time was left to save it")]


def test_a_look_at_what_is_large_ends_with_its_time(tmp_path: Path) -> None:
    notebook = a_notebook("rows = [{'i': i, 't': str(i)} for i in range(400_000)]; answer = 42")
    began_s = time.monotonic()
    save(notebook, tmp_path / "s", limit_s=0.2)
    took_s = time.monotonic() - began_s
    fresh, lacking = load(tmp_path / "s")
    assert fresh["answer"] == 42
    assert lacking == {"rows": "no time was left to save it"}
    assert took_s < 5.0


def test_small_ones_that_turn_out_to_share_something_are_together_in_the_end(tmp_path: Path) -> None:
    about = save(a_notebook("first = [1]; second = (0, first)"), tmp_path / "s")
    fresh, _ = load(tmp_path / "s")
    assert fresh["second"][1] is fresh["first"]
    assert [sorted(group.names) for group in about.groups] == [["first", "second"]]


def test_a_save_whose_folder_was_taken_away_is_given_up(tmp_path: Path) -> None:
    # The first of them takes the folder away.
    notebook = a_notebook() | {"gone": Takes(tmp_path / "s"), "last": Slow(5.0)}
    began_s = time.monotonic()
    with pytest.raises(OSError, match="about"):
        save(notebook, tmp_path / "s")
    assert time.monotonic() - began_s < 5.0


def test_an_older_save_that_stands_in_says_so_to_whoever_loads_it(tmp_path: Path) -> None:
    from gpunion.sdk.session.variables.snapshot import stand_in

    save(a_notebook("data = [1]"), tmp_path / "before")
    said = stand_in(tmp_path / "before", tmp_path / "now", "its kernel heard nobody")
    again = stand_in(tmp_path / "now", tmp_path / "later", "its kernel heard nobody again")
    assert said.startswith("as they were at")
    assert load(tmp_path / "now")[1] == {"all variables": said}
    fresh, lacking = load(tmp_path / "later")
    assert fresh["data"] == [1]
    assert lacking == {"all variables": again}
    assert load(tmp_path / "before")[1] == {}
    assert stand_in(None, tmp_path / "none", "it heard nobody") == "it heard nobody"
