"""What an operator publishes for jobs: images with the archives nodes fetch them from, and environments."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.requests import Request
from starlette.responses import FileResponse

from gpunion.coordinator.api.access import Admin, Anybody, TheCampus
from gpunion.coordinator.api.problems import ApiError, not_found
from gpunion.coordinator.image_archives import NoRoom, OutOfStep
from gpunion.coordinator.services import Campus
from gpunion.domain.environment import (
    CampusEnvironment,
    EnvironmentAdded,
    EnvironmentRemoved,
    package_list,
)
from gpunion.domain.ids import NodeId
from gpunion.domain.image import (
    Archive,
    CampusImage,
    Image,
    ImageAdded,
    ImageRemoved,
    parse_image,
    pinned,
)
from gpunion.domain.nodes.node import NodePhase
from gpunion.wire.image_archive import BadArchive
from gpunion.wire.v1 import convert
from gpunion.wire.v1 import images as wire
from gpunion.wire.v1.names import EnvironmentName

router = APIRouter(tags=["images"])
environments_router = APIRouter(prefix="/environments", tags=["environments"])

Digest = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")]
_BYTES = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}


class LargeFile(FileResponse):
    """In pieces that are worth a thread's turn each: images have gigabytes."""

    chunk_size = 1024 * 1024


@router.get("/images")
async def images(campus: TheCampus, _caller: Anybody) -> wire.ImageList:
    return wire.ImageList(images=[_shown(entry) for entry in _listed(campus)])


@router.post("/images", status_code=201)
async def add_image(wish: wire.ImageIn, campus: TheCampus, caller: Admin) -> wire.ImageOut:
    image = pinned(wish.image)
    archive = None if wish.archive is None else await _checked_archive(campus, wish.archive, image)
    await campus.loop.post(ImageAdded(image=image, archive=archive, by=caller.name))
    return _shown(campus.state.images[image.ref])


@router.delete("/images")
async def remove_image(
    campus: TheCampus, caller: Admin, query: Annotated[wire.ImageQuery, Query()]
) -> wire.ImageOut:
    entry = _the_one(campus, query.image)
    shown = _shown(entry)
    await campus.loop.post(ImageRemoved(image=entry.image, by=caller.name))
    if entry.archive is not None and entry.archive not in [other.archive for other in _listed(campus)]:
        await asyncio.to_thread(campus.archives.remove, entry.archive.digest)
    return shown


@router.get("/image-archives/{digest}/arrived")
async def archive_arrived(digest: Digest, campus: TheCampus, _caller: Admin) -> wire.ArchiveOut:
    found = await asyncio.to_thread(campus.archives.find, digest)
    if found is not None:
        return wire.ArchiveOut(digest=digest, next_offset=found.size_bytes, complete=True)
    reached = await asyncio.to_thread(campus.archives.reached, digest)
    return wire.ArchiveOut(digest=digest, next_offset=reached, complete=False)


@router.put("/image-archives/{digest}", openapi_extra={"requestBody": {"required": True, "content": _BYTES}})
async def put_archive(
    digest: Digest,
    campus: TheCampus,
    _caller: Admin,
    request: Request,
    query: Annotated[wire.ArchiveQuery, Query()],
) -> wire.ArchiveOut:
    """A piece of an archive, in order; `last` has all of it checked."""
    data = await request.body()
    try:
        end = await asyncio.to_thread(campus.archives.append, digest, query.offset, data)
        if query.last:
            await asyncio.to_thread(campus.archives.finish, digest)
    except OutOfStep as gap:
        next_step = f"send it from byte {gap.expected} on"
        raise ApiError(409, "archive_gap", str(gap), next_step, next_offset=gap.expected) from gap
    except NoRoom as full:
        raise ApiError(507, "no_room", str(full), "the operator makes room on its disk") from full
    except BadArchive as bad:
        next_step = "send what `docker save` or `podman save` wrote, with gpunion images add"
        raise ApiError(422, "bad_archive", str(bad), next_step) from bad
    return wire.ArchiveOut(digest=digest, next_offset=end, complete=query.last)


@router.get("/image-archives/{digest}", response_class=FileResponse, responses={200: {"content": _BYTES}})
async def get_archive(digest: Digest, campus: TheCampus, _caller: Anybody) -> FileResponse:
    """Understands `Range`, so that a node that was cut off goes on where it was."""
    if await asyncio.to_thread(campus.archives.find, digest) is None:
        raise not_found(f"archive {digest}", "GET /api/v1/images lists the archives there are")
    return LargeFile(campus.archives.path(digest), media_type="application/octet-stream")


@environments_router.get("")
async def environments(campus: TheCampus, _caller: Admin) -> wire.EnvironmentList:
    found = campus.state.environments
    return wire.EnvironmentList(
        environments=[_environment(campus, found[name]) for name in sorted(found) if not found[name].removed]
    )


@environments_router.post("", status_code=201)
async def add_environment(wish: wire.EnvironmentIn, campus: TheCampus, caller: Admin) -> wire.EnvironmentOut:
    """A list under a name that is there already is for the jobs that are handed in from now on."""
    packages = package_list(wish.name, wish.requirements)
    await campus.loop.post(EnvironmentAdded(packages=packages, by=caller.name))
    return _environment(campus, campus.state.environments[wish.name])


@environments_router.delete("/{name}")
async def remove_environment(name: EnvironmentName, campus: TheCampus, caller: Admin) -> wire.EnvironmentOut:
    entry = campus.state.environments.get(name)
    if entry is None or entry.removed:
        raise not_found(f"environment {name}", "GET /api/v1/environments lists the environments there are")
    shown = _environment(campus, entry)
    await campus.loop.post(EnvironmentRemoved(name=name, by=caller.name))
    return shown


def _environment(campus: Campus, entry: CampusEnvironment) -> wire.EnvironmentOut:
    installed = [
        wire.InstalledOut(node=node_id, size_bytes=one.size_bytes)
        for node_id in sorted(campus.state.installed)
        for one in campus.state.installed[node_id]
        if one.digest == entry.packages.digest and _is_there(campus, node_id)
    ]
    return wire.EnvironmentOut(
        name=entry.id,
        digest=entry.packages.digest,
        packages=entry.packages.requirements.count("\n"),
        installed=installed,
        added_at=convert.shown_time(entry.added_s),
        added_by=entry.added_by,
    )


def _is_there(campus: Campus, node_id: NodeId) -> bool:
    node = campus.state.nodes.get(node_id)
    return node is not None and node.phase is not NodePhase.LEFT


async def _checked_archive(campus: Campus, digest: str, image: Image) -> Archive:
    archive = await asyncio.to_thread(campus.archives.find, digest)
    if archive is None:
        detail = f"archive {digest} is not here"
        raise ApiError(422, "archive_missing", detail, f"PUT /api/v1/image-archives/{digest} first")
    actual = await asyncio.to_thread(campus.archives.image_in, digest)
    if actual != image.digest:
        detail = f"the archive holds sha256:{actual}, not sha256:{image.digest}"
        raise ApiError(422, "wrong_digest", detail, f"add it as {image.name}@sha256:{actual}")
    settings = await asyncio.to_thread(campus.archives.settings, digest)
    return replace(archive, requires=settings.requires)


def _listed(campus: Campus) -> list[CampusImage]:
    return sorted((e for e in campus.state.images.values() if e.listed), key=lambda entry: entry.id)


def _the_one(campus: Campus, asked: str) -> CampusImage:
    name, digest = parse_image(asked)
    found = [e for e in _listed(campus) if e.image.name == name and digest in (None, e.image.digest)]
    if not found:
        raise not_found(f"image {asked} on the list", "GET /api/v1/images lists the images there are")
    if len(found) > 1:
        several = ", ".join(entry.id for entry in found)
        raise ApiError(409, "ambiguous", f"{name} is {several}", "name it with its digest")
    return found[0]


def _shown(entry: CampusImage) -> wire.ImageOut:
    return wire.ImageOut(
        image=entry.id,
        name=entry.image.name,
        digest=f"sha256:{entry.image.digest}",
        archive=None if entry.archive is None else entry.archive.digest,
        size_bytes=None if entry.archive is None else entry.archive.size_bytes,
        added_at=convert.shown_time(entry.added_s),
        added_by=entry.added_by,
    )
