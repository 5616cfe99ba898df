"""One request at a time, its trouble told in words: what happened, why, what to do next."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import httpx

from gpunion.ports.coordinator_link import Application, Enrolment, LinkFault

ENROL_LIMIT_S = 20.0
FAREWELL_LIMIT_S = 5.0  # an owner who leaves does not wait for a coordinator that hangs


class HttpRegistrar:
    """Implements `ports.coordinator_link.Registrar`."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def enrol(self, application: Application) -> Enrolment:
        what = f"{self._url} did not let this machine in"
        body = {
            "join_token": application.join_token,
            "node_name": application.name,
            "lab": application.lab,
        }
        with faults(what):
            async with httpx.AsyncClient(timeout=ENROL_LIMIT_S, trust_env=False) as client:
                try:
                    answer = await client.post(f"{self._url}/api/v1/enrol", json=body)
                except httpx.ConnectError as error:
                    raise LinkFault(
                        f"the coordinator at {self._url} cannot be reached: {error or type(error).__name__}. "
                        "Next: check the address, and that it runs",
                        temporary=True,
                    ) from error
            if answer.status_code not in (httpx.codes.OK, httpx.codes.CREATED):
                raise refusal(answer, what)
            given = answer.json()
            vault = given.get("vault")
            return Enrolment(
                node_id=str(given["node_id"]),
                credential=str(given["credential"]),
                vault=str(vault) if vault else None,
                vault_mark=str(given.get("vault_mark", "")),
            )

    async def farewell(self, credential: str) -> None:
        """Say that the node with this credential has left. Again, or unknown there: as good."""
        what = f"{self._url} did not hear that this machine has left"
        headers = {"Authorization": f"Bearer {credential}"}
        with faults(what):
            async with httpx.AsyncClient(timeout=FAREWELL_LIMIT_S, trust_env=False) as client:
                answer = await client.post(f"{self._url}/api/v1/agent/farewell", headers=headers)
            if answer.status_code not in (httpx.codes.OK, httpx.codes.UNAUTHORIZED):
                raise refusal(answer, what)


@contextlib.contextmanager
def faults(what: str) -> Iterator[None]:
    try:
        yield
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise LinkFault(f"{what}: {error or type(error).__name__}", temporary=True) from error
    except (KeyError, TypeError, ValueError) as error:
        raise LinkFault(f"{what}: its answer makes no sense ({error})", temporary=False) from error


def refusal(answer: httpx.Response, what: str) -> LinkFault:
    problem = _problem(answer)
    detail = problem.get("detail") or problem.get("title") or f"status {answer.status_code}"
    next_step = f". Next: {problem['next_step']}" if problem.get("next_step") else ""
    busy = answer.status_code >= 500 or answer.status_code in (408, 429)
    return LinkFault(f"{what}: {detail}{next_step}", temporary=busy)


def _problem(answer: httpx.Response) -> dict[str, Any]:
    try:
        body = answer.json()
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}
