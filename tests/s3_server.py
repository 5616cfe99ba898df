"""A server that speaks S3 over HTTP on loopback (moto's), with troubles that a test can order.

Its handlers check a condition and write in two steps, so requests are answered one at a time: conditional
writes are atomic here, as a real store's are.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from gpunion.vault.stores.bucket.bucket import Bucket
from tests.services import ANSWER_LIMIT_S

# Wsgi, as far as we use it.
Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
Trouble = tuple[str, str]  # status line and the code of S3's answer


@dataclass
class S3Server:
    url: str
    trouble: Callable[[str, str], Trouble | None] = lambda method, path: None
    requests: list[tuple[str, str]] = field(default_factory=list)

    def bucket(self, name: str, **changes: Any) -> Bucket:
        """Tried once: a test waits for no second try."""
        fields: dict[str, Any] = {
            "bucket": name,
            "endpoint": self.url,
            "access_key_id": "key",
            "secret_access_key": "secret",
            "tries": 1,
        }
        return Bucket(**(fields | changes))

    def make_bucket(self, name: str) -> None:
        import httpx

        httpx.put(f"{self.url}/{name}", timeout=ANSWER_LIMIT_S).raise_for_status()


@contextmanager
def s3_server() -> Iterator[S3Server]:
    from moto.moto_server.werkzeug_app import (
        DomainDispatcherApplication,
        MotoRequestHandler,
        create_backend_app,
    )
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    application: Application = DomainDispatcherApplication(create_backend_app)
    about = S3Server("")
    one_at_a_time = threading.Lock()

    def answer(request: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        method, path = request["REQUEST_METHOD"], request["PATH_INFO"]
        with one_at_a_time:
            about.requests.append((method, path))
            trouble = about.trouble(method, path)
            if trouble is None:
                return list(application(request, start))
            body = f"<?xml version='1.0'?><Error><Code>{trouble[1]}</Code></Error>".encode()
            start(trouble[0], [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
            return [body]

    server = make_server("127.0.0.1", 0, answer, threaded=True, request_handler=MotoRequestHandler)
    about.url = f"http://127.0.0.1:{server.port}"
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    serving.start()
    try:
        yield about
    finally:
        server.shutdown()
        serving.join()
        server.server_close()
