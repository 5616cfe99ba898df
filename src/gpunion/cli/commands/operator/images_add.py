"""`gpunion images add`: put an image on the campus's list, and the image itself into the campus's store."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
from pathlib import Path

from gpunion.cli.campus import Campus, Json
from gpunion.cli.context import Context
from gpunion.cli.exits import ERROR, NOT_FOUND, OK, USAGE, Trouble
from gpunion.cli.output.transfer import Transfer
from gpunion.cli.quantities import shown_size
from gpunion.domain.image import Image, parse_image

CONNECTS = True
JSON = "`{image, name, digest, archive, size_bytes, added_at, added_by}`."
EXAMPLES = (
    "docker save torch:2.4 -o torch.tar && gpunion images add torch:2.4 --from torch.tar",
    "gpunion images add torch:2.4 --engine docker",
    "gpunion images add campus.example/torch:2.4@sha256:DIGEST",
)
ENGINES = ("docker", "podman")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "image",
        metavar="NAME[@sha256:DIGEST]",
        help="what jobs call it, and what it must be; without a digest, whatever is in the archive",
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--from",
        dest="archive",
        type=Path,
        metavar="ARCHIVE",
        help="a file that docker save or podman save wrote; nodes fetch it from the coordinator",
    )
    source.add_argument("--engine", choices=ENGINES, help="the image of that name in this machine's engine")


def run(arguments: argparse.Namespace, context: Context) -> int:
    try:
        name, digest = parse_image(arguments.image)
    except ValueError as error:
        raise Trouble(str(error), code=USAGE) from error
    campus = context.campus(arguments)
    if arguments.archive is not None:
        added = _send(context, campus, context.here / arguments.archive, name, digest)
    elif arguments.engine is not None:
        added = _send_from_engine(context, campus, arguments.engine, name, digest)
    elif digest is not None:
        added = campus.add_image(arguments.image)
    else:
        raise Trouble(
            f"{name} is not pinned",
            why="a name alone may be another image tomorrow",
            next_step=f"name its digest ({name}@sha256:DIGEST), or the image itself with --from or --engine",
            code=USAGE,
        )
    if context.screen.as_json:
        context.screen.data(added)
    else:
        context.screen.line(f"{added['image']} is on the list.")
        context.screen.line(f"Next: gpunion run --image {added['name']} -- COMMAND")
    return OK


def _send_from_engine(context: Context, campus: Campus, engine: str, name: str, digest: str | None) -> Json:
    program = shutil.which(engine)
    if program is None:
        raise Trouble(f"{engine} is not installed here", code=NOT_FOUND)
    with tempfile.TemporaryDirectory(prefix="gpunion-image-") as folder:
        archive = Path(folder, "saved.tar")
        wanted = name if digest is None else f"sha256:{digest}"
        saved = subprocess.run([program, "save", "-o", str(archive), wanted], capture_output=True, text=True)
        if saved.returncode != 0:
            raise Trouble(
                f"{engine} has no {wanted} to save", why=saved.stderr.strip()[-300:], code=NOT_FOUND
            )
        return _send(context, campus, archive, name, digest)


def _send(context: Context, campus: Campus, archive: Path, name: str, digest: str | None) -> Json:
    from gpunion.wire.image_archive import BadArchive, reduce_archive

    with tempfile.TemporaryDirectory(prefix="gpunion-image-") as folder:
        reduced = Path(folder, "image.tar")
        try:
            image = Image(name=name, digest=reduce_archive(archive, reduced, digest))
        except BadArchive as error:
            raise Trouble(f"{archive} is not the image {name}", why=str(error), code=ERROR) from error
        except OSError as error:
            raise Trouble(
                f"{archive} cannot be read", why=error.strerror or str(error), code=NOT_FOUND
            ) from error
        size_bytes = reduced.stat().st_size
        if not context.screen.as_json:
            context.screen.note(f"Sending {image.ref}, {shown_size(size_bytes)}.")
        with Transfer(context.screen, size_bytes, "sent") as progress:
            sent = campus.put_image_archive(reduced, progress.reach)
        return campus.add_image(image.ref, sent)
