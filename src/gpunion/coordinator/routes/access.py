"""Who may use which route, and what every route answers when it refuses."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Security
from fastapi.security import HTTPBearer
from starlette.requests import Request

from gpunion.coordinator.campus import Campus, campus_of
from gpunion.coordinator.gate import caller_of
from gpunion.coordinator.problems import MEDIA_TYPE, ApiError
from gpunion.ports.store import Credential, CredentialKind
from gpunion.wire.v1.campus import Problem

# The gate has checked the token long before; this tells it in the schema.
_BEARER = Security(HTTPBearer(auto_error=False, scheme_name="token"))

_SCHEMA = {"schema": {"$ref": "#/components/schemas/Problem"}}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    "default": {"description": "a problem", "model": Problem, "content": {MEDIA_TYPE: _SCHEMA}}
}

TheCampus = Annotated[Campus, Depends(campus_of)]


def _anybody(request: Request, _token: Annotated[object, _BEARER] = None) -> Credential:
    return caller_of(request)


def _admin(caller: Annotated[Credential, Depends(_anybody)]) -> Credential:
    if caller.kind is not CredentialKind.ADMIN:
        raise _forbidden("a node's credential is not enough for this", "use the admin token")
    return caller


def _node(caller: Annotated[Credential, Depends(_anybody)]) -> Credential:
    if caller.kind is not CredentialKind.NODE:
        raise _forbidden("only a node may do this", "use the node's credential")
    return caller


Anybody = Annotated[Credential, Depends(_anybody)]
Admin = Annotated[Credential, Depends(_admin)]
NodeOnly = Annotated[Credential, Depends(_node)]


def _forbidden(detail: str, next_step: str) -> ApiError:
    return ApiError(403, "forbidden", detail, next_step)
