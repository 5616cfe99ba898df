"""Who may use which route, and what every route answers when it refuses."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Security
from fastapi.security import HTTPBearer
from starlette.requests import Request

from gpunion.coordinator.api.gate import caller_of
from gpunion.coordinator.api.problems import MEDIA_TYPE, ApiError
from gpunion.coordinator.services import Campus, campus_of
from gpunion.ports.database import Credential, CredentialKind
from gpunion.wire.v1.campus import Problem

# The gate has checked the token long before; this tells it in the schema.
_BEARER = Security(HTTPBearer(auto_error=False, scheme_name="token"))

_SCHEMA = {"schema": {"$ref": "#/components/schemas/Problem"}}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    "default": {"description": "a problem", "model": Problem, "content": {MEDIA_TYPE: _SCHEMA}}
}

TheCampus = Annotated[Campus, Depends(campus_of)]


def _anybody(request: Request, _token: Annotated[object, _BEARER] = None) -> Credential:
    caller = caller_of(request)
    if caller.kind is CredentialKind.METRICS:
        raise _forbidden("the metrics token reads /metrics and nothing else", "use the admin token")
    return caller


def _admin(caller: Annotated[Credential, Depends(_anybody)]) -> Credential:
    if caller.kind is not CredentialKind.ADMIN:
        raise _forbidden("a node's credential is not enough for this", "use the admin token")
    return caller


def _node(caller: Annotated[Credential, Depends(_anybody)]) -> Credential:
    if caller.kind is not CredentialKind.NODE:
        raise _forbidden("only a node may do this", "use the node's credential")
    return caller


def _watcher(request: Request) -> Credential:
    caller = caller_of(request)
    if caller.kind is CredentialKind.NODE:
        raise _forbidden("a node's credential is not enough for this", "use the metrics token")
    return caller


Anybody = Annotated[Credential, Depends(_anybody)]
Admin = Annotated[Credential, Depends(_admin)]
Watcher = Annotated[Credential, Depends(_watcher)]
NodeOnly = Annotated[Credential, Depends(_node)]


def _forbidden(detail: str, next_step: str) -> ApiError:
    return ApiError(403, "forbidden", detail, next_step)
