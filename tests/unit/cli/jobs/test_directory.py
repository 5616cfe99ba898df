"""What travels with a job, and that nothing travels twice."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from gpunion.cli.exits import Trouble
from gpunion.cli.jobs.directory import take_inventory, take_snapshot
from gpunion.cli.jobs.sending import send_directory
from gpunion.cli.output.screen import Screen
from gpunion.cli.output.transfer import Transfer
from gpunion.sdk.errors import Unreachable
from gpunion.vault.job_directories import BATCH_BYTES, decode_list, encode_list
from gpunion.vault.tree import BLOCK_SIZE_BYTES, FileEntry
from tests.unit.cli.campus_double import CampusDouble, Json


def files_of(folder: Path) -> dict[str, FileEntry]:
    return {entry.path: entry for entry in take_snapshot(take_inventory(folder)).files}


def send(campus: CampusDouble, folder: Path) -> str | None:
    return send_directory(Screen(out=io.StringIO(), err=io.StringIO()), campus, folder).digest


def test_the_same_files_have_the_same_list_whenever_they_were_written(tmp_path: Path) -> None:
    for place in ("a", "b"):
        (tmp_path / place / "sub").mkdir(parents=True)
        (tmp_path / place / "sub" / "train.py").write_text("print(1)")
    os.utime(tmp_path / "b" / "sub" / "train.py", (1, 1))
    (tmp_path / "b" / "sub" / "train.py").chmod(0o600)
    first, second = (encode_list(files_of(tmp_path / place).values()) for place in ("a", "b"))
    assert first == second


def test_ignored_files_stay_at_home(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "big").write_text("x")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gpunionignore").write_text("data/\n")
    assert sorted(files_of(tmp_path)) == [".gpunionignore", "train.py"]


def a_folder_with_secrets(folder: Path) -> None:
    (folder / "train.py").write_text("print(1)")
    (folder / ".env").write_text("TOKEN=1")
    (folder / ".ssh").mkdir()
    (folder / ".ssh" / "id_rsa").write_text("key")
    for name in (".venv", "mine"):
        (folder / name / "bin").mkdir(parents=True)
        (folder / name / "pyvenv.cfg").write_text("home = /usr/bin")


def test_secrets_and_virtual_environments_stay_at_home_and_are_named(tmp_path: Path) -> None:
    a_folder_with_secrets(tmp_path)
    campus, said = CampusDouble(), io.StringIO()
    result = send_directory(Screen(out=io.StringIO(), err=said), campus, tmp_path)
    assert [entry.path for entry in sent(campus)] == ["train.py"]
    assert [item.name for item in result.left_out] == [".env", ".ssh/", ".venv/", "mine/"]
    assert "may hold secrets: .env, .ssh/. " in said.getvalue()
    assert "--include .env" in said.getvalue()
    assert "virtual environment of this machine: .venv/, mine/. " in said.getvalue()


def test_a_secret_that_is_named_travels_alone(tmp_path: Path) -> None:
    a_folder_with_secrets(tmp_path)
    campus, said = CampusDouble(), io.StringIO()
    send_directory(Screen(out=io.StringIO(), err=said), campus, tmp_path, included=[".env"])
    assert [entry.path for entry in sent(campus)] == [".env", "train.py"]
    assert "may hold secrets: .ssh/. " in said.getvalue()


def test_a_folder_that_is_one_big_secret_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").write_text("Host x")
    with pytest.raises(Trouble, match="folder of keys and passwords") as raised:
        take_inventory(tmp_path / ".ssh")
    assert "--no-dir" in raised.value.next_step


def test_the_folder_for_outputs_stays_at_home_unless_it_is_named(tmp_path: Path) -> None:
    output = tmp_path / "out" / "a[1]"
    output.mkdir(parents=True)
    (output / "weights").write_text("x")
    (tmp_path / "a[1]").mkdir()
    campus, said = CampusDouble(), io.StringIO()
    send_directory(Screen(out=io.StringIO(), err=said), campus, tmp_path, output=output)
    assert [entry.path for entry in sent(campus)] == ["a[1]", "out"]
    assert "Not sent: out/a[1]" in said.getvalue()
    (tmp_path / ".gpunionignore").write_text("!out/a*\n")
    said.seek(said.truncate(0))
    send_directory(Screen(out=io.StringIO(), err=said), campus, tmp_path, output=output)
    assert "out/a[1]/weights" in [entry.path for entry in sent(campus)]
    assert "Not sent" not in said.getvalue()


def test_an_output_that_is_the_directory_itself_or_elsewhere_keeps_nothing_at_home(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text("x")
    for output in (tmp_path / "code", tmp_path / "elsewhere", tmp_path):
        assert len(take_inventory(tmp_path / "code", left_out=output).entries) == 1


def sent(campus: CampusDouble) -> list[FileEntry]:
    return list(decode_list(list(campus.trees.values())[-1]))


def test_programs_links_and_names_that_are_no_text_survive(tmp_path: Path) -> None:
    (tmp_path / "go.sh").write_text("")
    (tmp_path / "go.sh").chmod(0o755)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "again").symlink_to("../go.sh")
    (tmp_path / os.fsdecode(b"od\xff\nd")).write_text("x")
    found = files_of(tmp_path)
    assert {entry.path: entry for entry in decode_list(encode_list(found.values()))} == found
    assert oct(found["go.sh"].mode) == "0o100755"
    assert found["sub/again"].size_bytes == len("../go.sh")
    campus = CampusDouble()
    assert send(campus, tmp_path) in campus.trees


@pytest.mark.parametrize("target", ["/etc/passwd", "../secret", "sub/../../secret", "sub/../x"])
def test_a_link_that_could_lead_outside_is_refused_before_anything_is_sent(
    tmp_path: Path, target: str
) -> None:
    (tmp_path / "link").symlink_to(target)
    campus = CampusDouble()
    with pytest.raises(Trouble, match="leads outside"):
        send(campus, tmp_path)
    assert campus.batches == []


def test_a_pipe_is_left_out_and_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert take_inventory(tmp_path).skipped == ("pipe",)


def test_too_many_files_are_refused(tmp_path: Path) -> None:
    for number in range(4):
        (tmp_path / str(number)).touch()
    with pytest.raises(Trouble, match="more than 3 files"):
        take_inventory(tmp_path, files_max=3)


def test_a_directory_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(Trouble) as raised:
        take_inventory(tmp_path / "nothing")
    assert raised.value.code == 3


def test_only_what_changed_is_sent_again(tmp_path: Path) -> None:
    campus = CampusDouble()
    (tmp_path / "a").write_bytes(b"one")
    (tmp_path / "b").write_bytes(b"two")
    first = send(campus, tmp_path)
    assert send(campus, tmp_path) == first
    assert len(campus.batches) == 1
    (tmp_path / "b").write_bytes(b"three")
    assert send(campus, tmp_path) != first
    assert [len(batch) for batch in campus.batches] == [2, 1]


def test_a_sending_that_was_cut_goes_on_from_there(tmp_path: Path) -> None:
    count = BATCH_BYTES // BLOCK_SIZE_BYTES + 2
    with open(tmp_path / "big", "wb") as file:
        for number in range(count):
            file.write(bytes([number]) * BLOCK_SIZE_BYTES)
    campus = CampusDouble()
    campus.cut_after = 1
    with pytest.raises(Unreachable):
        send(campus, tmp_path)
    campus.cut_after = None
    assert send(campus, tmp_path) in campus.trees
    assert [len(batch) for batch in campus.batches] == [count - 2, 2]


@pytest.mark.parametrize("while_it", ["offer_tree", "put_blocks"])
def test_who_has_had_enough_of_the_sending_is_told_that_nothing_was_handed_in(
    tmp_path: Path, while_it: str
) -> None:
    (tmp_path / "data").write_bytes(b"x")

    class Slow(CampusDouble):
        def offer_tree(self, digest: str, listing: bytes) -> Json:
            self.had_enough("offer_tree")
            return super().offer_tree(digest, listing)

        def put_blocks(self, blocks: Mapping[str, bytes], sent: Callable[[int], None]) -> Json:
            self.had_enough("put_blocks")
            return super().put_blocks(blocks, sent)

        def had_enough(self, doing: str) -> None:
            if doing == while_it:
                raise KeyboardInterrupt

    said = io.StringIO()
    with pytest.raises(KeyboardInterrupt):
        send_directory(Screen(out=io.StringIO(), err=said), Slow(), tmp_path)
    assert said.getvalue().count("Nothing was handed in. The same command") == 1


def test_a_file_that_changes_before_it_is_sent_is_listed_anew(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"before")

    class Writes(CampusDouble):
        def offer_tree(self, digest: str, listing: bytes) -> dict[str, object]:
            answer = super().offer_tree(digest, listing)
            if changes:
                (tmp_path / "log").write_bytes(changes.pop())
            return answer

    changes = [b"after"]
    campus = Writes()
    digest = send(campus, tmp_path)
    assert list(campus.blocks.values()) == [b"after"]
    assert digest in campus.trees
    changes = [b"%d" % number for number in range(10)]
    with pytest.raises(Trouble, match="changes while it is being read"):
        send(Writes(), tmp_path)


def test_a_terminal_sees_amount_and_rate_and_a_program_nothing() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for quiet in (False, True):
        screen = Screen(out=io.StringIO(), err=Terminal())
        with Transfer(screen, 2 * 1024**2, "sent", quiet=quiet, redraw_s=0.0) as transfer:
            transfer.advance(1024**2)
        shown = screen.err.getvalue()  # type: ignore[attr-defined]
        assert ("1 MiB of 2 MiB sent" in shown and "/s" in shown) is not quiet
