from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from gpunion.agent import bundles
from gpunion.agent.bundles import BadBundle, check_digest, unpack

LINK, HARD, FIFO = tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE


def a_bundle(tmp_path: Path, *members: tuple[str, str | bytes] | tuple[str, str | bytes, bytes]) -> Path:
    path = tmp_path / "bundle.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, content, *kind in members:
            member = tarfile.TarInfo(name)
            if kind:
                member.type, member.linkname = kind[0], str(content)
                archive.addfile(member)
            else:
                data = content if isinstance(content, bytes) else content.encode()
                member.size, member.mode = len(data), 0o755
                archive.addfile(member, io.BytesIO(data))
    return path


def test_code_comes_out_as_it_went_in(tmp_path: Path) -> None:
    bundle = a_bundle(tmp_path, ("train.py", "print(1)"), ("lib/a.py", "x"), ("lib/b.py", "a.py", LINK))
    unpack(bundle, tmp_path / "code")
    assert (tmp_path / "code" / "train.py").read_text() == "print(1)"
    assert (tmp_path / "code" / "lib" / "b.py").read_text() == "x"


@pytest.mark.parametrize(
    "members",
    [
        [("../evil", "x")],
        [("/evil", "x")],
        [("a/../../evil", "x")],
        [("link", "/etc", LINK)],
        [("link", "../..", LINK)],
        [("d/link", "../../x", LINK)],
        [("s", ".", LINK), ("t", "s/../x", LINK)],
        [("link", "d", LINK), ("link/x", "through")],
        [("link", "d", LINK), ("link", "twice")],
        [("hard", "/etc/passwd", HARD)],
        [("pipe", "", FIFO)],
    ],
)
def test_what_would_lead_outside_is_refused_and_nothing_is_kept(
    tmp_path: Path, members: list[tuple[str, str]]
) -> None:
    with pytest.raises(BadBundle):
        unpack(a_bundle(tmp_path, *members), tmp_path / "in" / "code")
    assert not (tmp_path / "in" / "code").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bundle.tar.gz", "in"]


def test_a_small_bundle_cannot_fill_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundles, "UNPACKED_LIMIT_BYTES", 1000)
    with pytest.raises(BadBundle, match="more than 1000 bytes"):
        unpack(a_bundle(tmp_path, ("zeros", bytes(1001))), tmp_path / "code")


def test_something_else_than_a_bundle_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bundle").write_bytes(b"hello")
    with pytest.raises(BadBundle, match="cannot be unpacked"):
        unpack(tmp_path / "bundle", tmp_path / "code")


def test_other_code_than_asked_for_is_refused(tmp_path: Path) -> None:
    bundle = a_bundle(tmp_path, ("a", "x"))
    with pytest.raises(BadBundle, match="was asked for"):
        check_digest(bundle, "0" * 64)
