"""Job code on its way: put by whoever submits, fetched by the node that runs it."""

from __future__ import annotations

import hashlib
from typing import Annotated

from fastapi import APIRouter, Path, Response
from starlette.requests import Request

from gpunion.coordinator.problems import ApiError, not_found
from gpunion.coordinator.routes.access import Admin, Anybody, TheCampus
from gpunion.wire.v1.campus import BundleOut

router = APIRouter(prefix="/bundles", tags=["bundles"])

Digest = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")]
_BYTES = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}


@router.put(
    "/{digest}", status_code=201, openapi_extra={"requestBody": {"required": True, "content": _BYTES}}
)
async def put_bundle(
    digest: Digest, campus: TheCampus, _caller: Admin, request: Request, response: Response
) -> BundleOut:
    data = await request.body()
    actual = hashlib.sha256(data).hexdigest()
    if actual != digest:
        detail = f"the bytes have SHA-256 {actual}, not {digest}"
        raise ApiError(422, "digest_mismatch", detail, "send the whole bundle under its own hash")
    if await campus.store.get_bundle(digest) is not None:
        response.status_code = 200
    else:
        await campus.store.put_bundle(digest, data)
    return BundleOut(digest=digest, size_bytes=len(data))


@router.get("/{digest}", response_class=Response, responses={200: {"content": _BYTES}})
async def get_bundle(digest: Digest, campus: TheCampus, _caller: Anybody) -> Response:
    data = await campus.store.get_bundle(digest)
    if data is None:
        raise not_found(f"bundle {digest}", "PUT it first")
    return Response(data, media_type="application/octet-stream")
