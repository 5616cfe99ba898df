"""Every refusal over HTTP: RFC 9457, a code that never changes, and what to do next. Never a traceback."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import structlog
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from gpunion.coordinator.locations.configured import LocationRefused
from gpunion.coordinator.loop.answers import NotAccepting, NotHandled
from gpunion.coordinator.requests.bodies import NoRoomForBody
from gpunion.engine.coordinator.vault_rights import OLD_EPOCH, Refusal
from gpunion.ports.database import StoreFault, StoreFull
from gpunion.vault.trees import TreesFault, TreesFull
from gpunion.wire.v1 import patterns
from gpunion.wire.v1.campus import FieldError, Problem
from gpunion.wire.v1.jobs import VerdictOut

MEDIA_TYPE = "application/problem+json"
# A request can be wrong in a thousand places; the first ones are enough to start with.
ERRORS_SHOWN = 20
PATH_SHOWN_CHARS = 200

LOCATION_STATUS = {"not_found": 404, "place_not_reached": 409}  # any other: 422

log = structlog.get_logger("gpunion.coordinator")


class ApiError(HTTPException):
    """A refusal. A kind of HTTPException so that the framework lets it pass through body parsing."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        next_step: str,
        *,
        verdicts: Sequence[VerdictOut] | None = None,
        errors: Sequence[FieldError] | None = None,
        next_offset: int | None = None,
    ) -> None:
        super().__init__(status_code=status, detail=detail)
        self.problem = Problem(
            title=code.replace("_", " ").capitalize(),
            status=status,
            code=code,
            detail=detail,
            next_step=next_step,
            verdicts=None if verdicts is None else list(verdicts),
            errors=None if errors is None else list(errors),
            next_offset=next_offset,
        )


def refused(refusal: Refusal) -> ApiError:
    """409: it was right once, and came too late."""
    status = 409 if refusal.code == OLD_EPOCH else 403
    return ApiError(status, refusal.code, refusal.detail, refusal.next_step)


def not_found(what: str, next_step: str) -> ApiError:
    return ApiError(404, "not_found", f"there is no {what}", next_step)


def response_of(error: ApiError) -> Response:
    headers = {"WWW-Authenticate": "Bearer"} if error.status_code == 401 else None
    body = error.problem.model_dump_json(exclude_none=True)
    return Response(body, status_code=error.status_code, headers=headers, media_type=MEDIA_TYPE)


def install(app: FastAPI) -> None:
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(NotAccepting, _on_not_accepting)
    app.add_exception_handler(NotHandled, _on_not_handled)
    app.add_exception_handler(StoreFault, _on_store_fault)
    app.add_exception_handler(StoreFull, _on_store_full)
    app.add_exception_handler(LocationRefused, _on_location_refused)
    app.add_exception_handler(NoRoomForBody, _on_no_room_for_body)
    app.add_exception_handler(TreesFault, _on_trees_fault)
    app.add_exception_handler(Exception, _on_bug)


async def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if isinstance(error, ApiError):
        return response_of(error)
    path = request.url.path[:PATH_SHOWN_CHARS]
    match error.status_code:
        case 404:
            return response_of(not_found(f"route {path}", "see docs/http-api.md for the routes there are"))
        case 405:
            detail = f"{request.method} is not possible on {path}"
            return response_of(
                ApiError(405, "method_not_allowed", detail, "see docs/http-api.md for the methods there are")
            )
        case 400:
            detail = "the body could not be read"
            return response_of(ApiError(400, "malformed_json", detail, "send one JSON object"))
        case status:
            return response_of(ApiError(status, "refused", str(error.detail), "see docs/http-api.md"))


async def _on_invalid(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    found = error.errors()
    kinds = {str(item["type"]) for item in found}
    shown = [_field_error(item) for item in found[:ERRORS_SHOWN]]
    detail = "; ".join(map(_told, shown[:3]))
    if "json_invalid" in kinds:
        return response_of(ApiError(400, "malformed_json", detail, "send one JSON object", errors=shown))
    code = "unknown_key" if kinds == {"unknown_key"} else "invalid_request"
    next_step = "correct that, and send it again"
    return response_of(ApiError(422, code, detail, next_step, errors=shown))


async def _on_not_accepting(_request: Request, _error: Exception) -> Response:
    detail = "the coordinator is ending or has too much to do; nothing was changed"
    return response_of(ApiError(503, "busy", detail, "ask again in a moment"))


async def _on_not_handled(_request: Request, error: Exception) -> Response:
    detail = f"the coordinator made a mistake over this ({error}); it was set aside and changed nothing"
    next_step = "asking again would do the same: tell the operator, who finds it in the coordinator's log"
    return response_of(ApiError(500, "not_handled", detail, next_step))


async def _on_store_fault(_request: Request, error: Exception) -> Response:
    log.error("store_fault", trouble=str(error))
    detail = f"the coordinator's store could not do it: {error}"
    next_step = "ask again in a moment; if it stays, the operator should look at the disk"
    return response_of(ApiError(503, "store_unavailable", detail, next_step))


async def _on_store_full(_request: Request, error: Exception) -> Response:
    detail = f"the coordinator has no room to write anything down, so nothing was changed: {error}"
    next_step = (
        "the operator makes room there (df -h shows what is full); then ask again. "
        "What runs goes on meanwhile, and what is known can be read"
    )
    return response_of(ApiError(507, "no_room", detail, next_step))


async def _on_location_refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, LocationRefused)
    status = LOCATION_STATUS.get(error.code, 422)
    return response_of(ApiError(status, error.code, str(error), error.next_step))


async def _on_no_room_for_body(_request: Request, error: Exception) -> Response:
    next_step = "the operator makes room where the coordinator keeps its data"
    return response_of(ApiError(507, "no_room", str(error), next_step))


async def _on_trees_fault(_request: Request, error: Exception) -> Response:
    log.error("trees_fault", trouble=str(error))
    detail = f"the coordinator could not keep or read a job's directory: {error}"
    if isinstance(error, TreesFull):
        next_step = "the operator makes room on its disk; then send it again, only the rest will go"
        return response_of(ApiError(507, "no_room", detail, next_step))
    next_step = "ask again in a moment; if it stays, the operator should look at the disk"
    return response_of(ApiError(503, "store_unavailable", detail, next_step))


async def _on_bug(request: Request, error: Exception) -> Response:
    log.error("bug_in_route", path=request.url.path[:PATH_SHOWN_CHARS], kind=type(error).__name__)
    detail = "the coordinator made a mistake; the operator finds it in its log"
    return response_of(ApiError(500, "internal", detail, "try again; if it stays, tell the operator"))


def _field_error(item: Mapping[str, Any]) -> FieldError:
    at = ".".join(str(part)[:64] for part in item["loc"] if part != "[key]")
    return FieldError(at=at, message=_in_words(item))


def _told(error: FieldError) -> str:
    at = error.at.removeprefix("body").removeprefix(".")
    return f"{at}: {error.message}" if at else error.message


def _in_words(item: Mapping[str, Any]) -> str:
    """As a person would say it; what was sent is not repeated where it may be long or secret."""
    bound = item.get("ctx", {})
    match item["type"]:
        case "string_pattern_mismatch" if bound["pattern"] in patterns.IN_WORDS:
            return f"write it with {patterns.IN_WORDS[bound['pattern']]}"
        case "string_too_short":
            return "it may not be empty"
        case "string_too_long":
            return f"it is too long: at most {bound['max_length']} characters"
        case "greater_than_equal":
            return f"it is too little: at least {bound['ge']}"
        case "greater_than":
            return f"it has to be more than {bound['gt']}"
        case "less_than_equal":
            return f"it is too much: at most {bound['le']}"
        case _:
            return str(item["msg"]).removeprefix("Value error, ")
