"""What the API takes is bounded: every number, text and list of every request."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import ValidationError

import gpunion.wire.v1
from gpunion.domain.ids import JobId
from gpunion.domain.jobs.job import Job, JobPhase
from gpunion.wire import codec
from gpunion.wire.v1 import convert
from gpunion.wire.v1.job_requests import TEXT_LIMIT_BYTES, JobIn
from gpunion.wire.v1.strict import Strict

for module in pkgutil.iter_modules(gpunion.wire.v1.__path__):
    importlib.import_module(f"gpunion.wire.v1.{module.name}")

LEAST, MOST = {"minimum", "exclusiveMinimum"}, {"maximum", "exclusiveMaximum"}


def requests(kind: type[Strict] = Strict) -> list[type[Strict]]:
    below = kind.__subclasses__()
    return [*below, *(deeper for one in below for deeper in requests(one))]


def unbounded(schema: dict[str, Any], at: str) -> Iterator[str]:
    """Where it says of something not how far it may go."""
    if schema.keys() & {"$ref", "enum", "const", "examples"}:
        return
    for part in schema.get("anyOf", []):
        yield from unbounded(part, at)
    match schema.get("type"):
        case "integer" | "number":
            if not (schema.keys() & LEAST and schema.keys() & MOST):
                yield at
        case "string":
            if "maxLength" not in schema:
                yield at
        case "array":
            if "maxItems" not in schema:
                yield at
            yield from unbounded(schema["items"], f"{at}[]")
        case "object":
            for name, part in schema.get("properties", {}).items():
                yield from unbounded(part, f"{at}.{name}")
            values = schema.get("additionalProperties")
            if isinstance(values, dict):
                if "maxProperties" not in schema:
                    yield at
                yield from unbounded(values, f"{at}{{}}")
        case _:
            pass


@pytest.mark.parametrize("request_kind", requests(), ids=lambda kind: kind.__name__)
def test_every_number_text_and_list_of_a_request_is_bounded(request_kind: type[Strict]) -> None:
    assert list(unbounded(request_kind.model_json_schema(), request_kind.__name__)) == []


def test_what_has_no_bound_is_found() -> None:
    schema = {"type": "object", "properties": {"warmth": {"type": "number", "minimum": 0}}}
    assert list(unbounded(schema, "Careless")) == ["Careless.warmth"]


@pytest.mark.parametrize("letter", ["\x9b", "\x1b", "\u202e", "\u2028", "\u2066", "\x7f"])
def test_a_jobs_name_has_nothing_that_a_terminal_obeys(letter: str) -> None:
    JobIn.model_validate({"name": "größe 日本", "command": ["x"]})
    with pytest.raises(ValidationError):
        JobIn.model_validate({"name": f"a{letter}b", "command": ["x"]})


@pytest.mark.parametrize("letter", ["x", "\x01", "ä", "\u2028"])
def test_the_largest_job_that_is_taken_can_be_stored_and_ordered(letter: str) -> None:
    for chars in range(TEXT_LIMIT_BYTES, 0, -TEXT_LIMIT_BYTES // 64):
        words = [letter * (chars // 8)] * 8
        asked = {
            "name": "n" * 128,
            "command": words,
            "checkpoint": {"command": words},
            "environment": {f"V{number}": word for number, word in enumerate(words)},
        }
        try:
            job = JobIn.model_validate(asked)
        except ValidationError:
            continue
        spec = convert.spec_from(job, "o" * 64)
        record = Job(
            id=JobId("job-1"), spec=spec, phase=JobPhase.PENDING, submitted_s=1.0, waiting_since_s=1.0
        )
        assert codec.decode(codec.encode(record)) == record
        return
    raise AssertionError("no job is taken")
