"""The least that a restore can take on this machine: what nobody can leave out, and nothing else.

    .venv/bin/python bench/checkpoint/floor.py                          a twentieth of the size
    .venv/bin/python bench/checkpoint/floor.py --scale 1 --series cache --count 20

Every stored block of the newest checkpoint is read, its compressed pieces go through the entropy decoder, as
many bytes as it comes to are hashed and written. No number is joined, no code looked up, no exception put in,
nothing waits for anything: a process for each core, each with its own files, and the time from when all begin
to when the last has ended. No program can restore this format faster with the same decoder and the same hash.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path

import zstandard
from blake3 import blake3
from keepers import Ours, Tool
from parts import add_arguments, saved

from gpunion.adapters.files import coding, kinds, pieces
from gpunion.adapters.files.operations import WRITE_BYTES
from gpunion.ports.vault import BLOCK_SIZE_BYTES

Block = tuple[int, list[str]]  # how many bytes it comes to, and the files that are read for it
_EXCEPTIONS = pieces._EXCEPTIONS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add_arguments(parser)
    parser.add_argument("--without-hash", action="store_true", help="as if nothing had to be verified")
    arguments = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    for name in arguments.series:
        with tempfile.TemporaryDirectory(dir=arguments.place, prefix="gpunion-bench-") as folder:
            ours, copies = saved(name, Path(folder), arguments)
            target = Path(folder) / "restored"
            blocks = blocks_of(ours)
            took_s: dict[str, list[float]] = {"least": [], "restore": [], "cp": []}
            for _ in range(arguments.restores):  # in turn, so that a busy moment is everybody's
                took_s["least"].append(least(blocks, cores, target, not arguments.without_hash))
                took_s["restore"].append(timed(ours, target))
                took_s["cp"].append(timed(copies, target))
            show(f"{name}, {cores} cores", {what: min(times) for what, times in took_s.items()})
    return 0


def show(title: str, took_s: dict[str, float]) -> None:
    cp_s = took_s["cp"]
    print(
        f"{title}: cp {cp_s:.3f} s; the least {took_s['least']:.3f} s, {cp_s / took_s['least']:.2f} of cp's "
        f"speed; a restore {took_s['restore']:.3f} s, {cp_s / took_s['restore']:.2f}",
        flush=True,
    )


def timed(tool: Tool, target: Path) -> float:
    began_s = time.perf_counter()
    tool.restore(target)
    took_s = time.perf_counter() - began_s
    shutil.rmtree(target)
    return took_s


def blocks_of(ours: Ours) -> list[Block]:
    """Of the newest checkpoint: with the base, where it is a difference from one."""
    manifest = ours.newest()
    stored = ours.vault.blocks
    found = []
    for entry in manifest.files:
        for index, name in enumerate(entry.blocks):
            base = stored.head(name).base
            needed = [str(stored.path(each)) for each in (name, base) if each is not None]
            found.append((min(BLOCK_SIZE_BYTES, entry.size_bytes - index * BLOCK_SIZE_BYTES), needed))
    return found


def least(blocks: list[Block], cores: int, target: Path, hashes: bool) -> float:
    """Each process has every so manyth block, and a file of its own to write to: nobody waits for a lock."""
    target.mkdir()
    fork = multiprocessing.get_context("fork")
    ready, done = fork.Barrier(cores + 1), fork.Barrier(cores + 1)
    workers = [
        fork.Process(target=restore, args=(blocks[number::cores], target / str(number), hashes, ready, done))
        for number in range(cores)
    ]
    for worker in workers:
        worker.start()
    ready.wait()
    began_s = time.perf_counter()
    done.wait()
    took_s = time.perf_counter() - began_s
    for worker in workers:
        worker.join()
        if worker.exitcode:
            raise RuntimeError(f"a process of the floor ended with {worker.exitcode}")
    shutil.rmtree(target)
    return took_s


def restore(blocks: list[Block], target: Path, hashes: bool, ready: Barrier, done: Barrier) -> None:
    read, plain = memoryview(bytearray(coding.STORED_BYTES_MAX)), memoryview(bytearray(BLOCK_SIZE_BYTES))
    plain[:] = bytes(len(plain))  # every page is there before the clock runs
    read[:] = bytes(len(read))
    decoder = zstandard.ZstdDecompressor()
    ready.wait()
    with open(target, "xb", buffering=0) as out:
        os.posix_fallocate(out.fileno(), 0, sum(size_bytes for size_bytes, _ in blocks))
        for size_bytes, needed in blocks:
            for number, path in enumerate(needed):
                decode(decoder, path, number == 0, read, plain)
            if hashes:
                blake3(plain[:size_bytes]).digest()
            for start in range(0, size_bytes, WRITE_BYTES):
                out.write(plain[start : min(start + WRITE_BYTES, size_bytes)])
    done.wait()


def decode(
    decoder: zstandard.ZstdDecompressor, path: str, whole: bool, read: memoryview, plain: memoryview
) -> None:
    """Of a base no more is looked at than its planes."""
    with open(path, "rb", buffering=0) as file:
        head = coding.read_head(file.read(coding.HEAD_BYTES_MAX))
        wanted, count = (head.stored_bytes, len(head.pieces)) if whole else (head.planes_end, head.top)
        file.seek(0)
        file.readinto(read[:wanted])
    at = head.head_bytes
    for length, kind in head.pieces[:count]:
        at = coding._aligned(at)
        piece = read[at : at + length]
        if kind == kinds.COMPRESSED:
            through(decoder, piece, plain)
        elif kind == kinds.EXCEPTIONS:
            _, gaps_kind, values_kind, _, gaps_bytes = _EXCEPTIONS.unpack_from(piece)
            rest = piece[_EXCEPTIONS.size :]
            for part, how in ((rest[:gaps_bytes], gaps_kind), (rest[gaps_bytes:], values_kind)):
                if how == kinds.COMPRESSED:
                    through(decoder, part, plain)
        at += length


def through(decoder: zstandard.ZstdDecompressor, piece: memoryview, plain: memoryview) -> None:
    with decoder.stream_reader(piece) as reader:
        while reader.readinto(plain):
            pass


if __name__ == "__main__":
    sys.exit(main())
