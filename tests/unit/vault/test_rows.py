"""Lists and manifests row by row: what cannot be is refused, with the row and the field that is at fault."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from blake3 import blake3

from gpunion.vault.job_directories import decode_list, decode_record, encode_list, encode_record
from gpunion.vault.manifest import BadManifest, SealedFiles
from gpunion.vault.manifests import decode, encode
from gpunion.vault.rows import ROW_BLOCKS, ROW_LIMIT_BYTES, line_of
from gpunion.vault.tree import BLOCK_SIZE_BYTES, BadTree, FileEntry
from tests.builders.checkpoints import a_manifest

NAME = "ab" * 32


def a_file(path: str = "f", blocks: int = 1) -> FileEntry:
    names = tuple(f"{number:064x}" for number in range(blocks))
    return FileEntry(path=path, mode=0o100644, size_bytes=blocks * BLOCK_SIZE_BYTES, blocks=names)


def changed(row_number: int, **changes: Any) -> bytes:
    """A manifest with another head, or other fields of its one file, and a checksum that is right."""
    rows = [json.loads(line) for line in encode(a_manifest({"f": b"x"})).splitlines()[:-1]]
    if row_number == 1:
        rows[0] |= changes
    else:
        for name, value in changes.items():
            rows[1][["kind", "path", "mode", "size_bytes", "blocks"].index(name)] = value
    body = b"".join(line_of(row) for row in rows)
    return body + line_of(["e", len(rows), blake3(body).hexdigest()])


@pytest.mark.parametrize("blocks", [0, 1, ROW_BLOCKS - 1, ROW_BLOCKS, ROW_BLOCKS + 1, 3 * ROW_BLOCKS])
def test_what_is_written_is_read_again(blocks: int) -> None:
    files = (a_file("a\udc80b", blocks), a_file("b", 1))
    assert decode_list(encode_list(files)) == files
    assert decode_list(io.BytesIO(encode_list(files))) == files
    assert decode_record(json.loads(b"".join(encode_record({"step": 7}, files)))) == files
    total_bytes = sum(entry.size_bytes for entry in files)
    manifest = a_manifest({}, files=files, total_bytes=total_bytes)
    assert decode(io.BytesIO(encode(manifest))) == manifest
    body = "s" * 100_000
    closed = a_manifest(
        {}, sealed=SealedFiles(key_id="0a", blocks=files[0].blocks, body=body), total_bytes=total_bytes
    )
    assert decode(encode(closed)) == closed


@pytest.mark.parametrize(
    ("row", "field", "value"),
    [
        (1, "epoch", True),
        (1, "epoch", -1),
        (1, "epoch", 10**10),
        (1, "step", 10**15),
        (1, "step", 1.0),
        (1, "step", "7"),
        (1, "tier", 5),
        (1, "tier", "x" * 33),
        (1, "progress", "x"),
        (1, "progress", float("inf")),
        (1, "progress", 1.5),
        (1, "created_s", float("nan")),
        (1, "created_s", 10**400),
        (1, "total_bytes", 2**60),
        (1, "new_bytes", -1),
        (1, "checkpoint_id", "../x"),
        (1, "job_id", None),
        (1, "parent", ["x"]),
        (1, "unheard", 1),
        (2, "mode", 2**40),
        (2, "mode", -1),
        (2, "mode", None),
        (2, "size_bytes", 2**70),
        (2, "size_bytes", 1.5),
        (2, "path", 7),
        (2, "path", "x" * 4000),
        (2, "blocks", "x"),
        (2, "blocks", [NAME, NAME]),
        (2, "blocks", [NAME.upper()]),
        (2, "blocks", [7]),
    ],
)
def test_what_a_manifest_cannot_say_is_refused_by_row_and_field(row: int, field: str, value: Any) -> None:
    with pytest.raises(BadManifest) as refused:
        decode(changed(row, **{field: value}))
    said = str(refused.value)
    assert (f"row {row}" in said and field in said) or "what cannot be" in said


@pytest.mark.parametrize(
    "row",
    [
        ["f", "g", 2**40, 0, []],
        ["f", "g", -1, 0, []],
        ["f", "g", 0o100644, True, []],
        ["f", "g", 0o100644, 5, []],
        ["f", "g", 0o100644, 0],
        ["b", [NAME]],
        ["q"],
        {},
        7,
        None,
    ],
)
def test_what_a_list_cannot_say_is_refused_by_row(row: Any) -> None:
    with pytest.raises(BadTree, match="row 3"):
        decode_list(encode_list([a_file()]) + line_of(row))


def test_a_list_is_written_in_one_way_only() -> None:
    listing = encode_list([a_file("a"), a_file("b")])
    head, first, second, _ = listing.split(b"\n")
    for other in (
        listing.replace(b",", b", "),
        listing[:-1],
        b"\n".join((head, second, first, b"")),
        listing.replace(b'"a"', b'"\\u0061"'),
    ):
        with pytest.raises(BadTree, match="one way"):
            decode_list(other)
    for other in (b"", b"{}", b"{},{},", b"\xff\xfe", b"[" * 50_000, b'{"format":1,"files":[]}\n'):
        with pytest.raises(BadTree):
            decode_list(other)


def test_a_manifest_that_was_cut_or_goes_on_is_damaged() -> None:
    data = encode(a_manifest({"f": b"x", "g": b"y"}))
    lines = data.splitlines(keepends=True)
    for other in (data + lines[1], b"".join(lines[:-1]), lines[0] + lines[2] + lines[3], data[:-9], b""):
        with pytest.raises(BadManifest):
            decode(other)


class Counting(io.BytesIO):
    read_bytes = 0

    def readline(self, size: int | None = -1, /) -> bytes:
        line = super().readline(size)
        self.read_bytes += len(line)
        return line


@pytest.mark.parametrize("body", [b"{}," * 10**6, b"[]\n" * 10**6, b"\n" * 10**6, b" " * 10**6, b"[" * 10**6])
def test_of_what_makes_no_sense_no_more_is_read_than_a_row(body: bytes) -> None:
    source = Counting(encode(a_manifest({})).partition(b"\n")[0] + b"\n" + body)
    with pytest.raises(BadManifest):
        decode(source)
    assert source.read_bytes < 2 * ROW_LIMIT_BYTES
