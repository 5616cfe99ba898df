"""A session's page on the loopback: whom it answers, what it passes on, and how it waits."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from gpunion.cli.sessions.exchange import LARGE_BYTES, REPEATABLE
from gpunion.cli.sessions.forwarder import Forwarder, Page
from gpunion.cli.sessions.origin import Site
from gpunion.sdk.errors import ApiProblem
from gpunion.sdk.streams import StreamBroken

LIMIT_S = 20.0
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class FakeStream:
    """What leads to a guest whose server is `answer`: given a whole request, its bytes back."""

    def __init__(self, answer: Callable[[bytes], bytes | None], seen: list[bytes]) -> None:
        self._answer, self._seen = answer, seen
        self._sent = b""
        self._back: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.alive = True

    async def write(self, data: bytes) -> None:
        self._sent += data
        head, ended, body = self._sent.partition(b"\r\n\r\n")
        if not ended or not _whole(head, body):
            return
        self._seen.append(self._sent)
        answer, self._sent = self._answer(self._sent), b""
        await self._back.put(answer)

    async def read(self) -> bytes:
        piece = await self._back.get()
        if piece is None:
            self.alive = False
            raise StreamBroken("the session moves")
        return piece

    async def end(self) -> None:
        return

    async def close(self) -> None:
        self.alive = False


def _whole(head: bytes, body: bytes) -> bool:
    lines = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    if b"chunked" in lines.get(b"transfer-encoding", b""):
        return body.endswith(b"0\r\n\r\n")
    return len(body) >= int(lines.get(b"content-length", b"0"))


class Place:
    """A forwarder that listens, with a fake guest behind it."""

    def __init__(self, port: int, seen: list[bytes]) -> None:
        self.port, self.seen = port, seen
        self.host = f"course.localhost:{port}"

    async def raw(self, data: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(data)
        try:
            async with asyncio.timeout(LIMIT_S):
                return await reader.read(1 << 20) + await reader.read()
        finally:
            writer.close()

    async def ask(self, method: str = "GET", path: str = "/api", *lines: str, body: bytes = b"") -> bytes:
        head = [f"{method} {path} HTTP/1.1", *lines]
        if not any(line.lower().startswith("host:") for line in lines):
            head.append(f"Host: {self.host}")
        if body:
            head.append(f"Content-Length: {len(body)}")
        return await self.raw("\r\n".join([*head, "Connection: close", "", ""]).encode() + body)


async def _own(name: str, request: object) -> Page | None:
    del request
    return Page(200, "text/plain", b"ours") if name == "page.txt" else None


@contextlib.asynccontextmanager
async def serving(
    answer: Callable[[bytes], bytes | None] = lambda request: OK,
    refusal: Callable[[], Exception | None] = lambda: None,
    **limits: float,
) -> AsyncIterator[Place]:
    seen: list[bytes] = []

    async def open_stream() -> FakeStream:
        if (error := refusal()) is not None:
            raise error
        return FakeStream(answer, seen)

    opening: Callable[[], Awaitable[FakeStream]] = open_stream
    probe = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = probe.sockets[0].getsockname()[1]
    probe.close()
    forwarder = Forwarder(Site(name="course", port=port), opening, _own, **limits)  # type: ignore[arg-type]
    async with await forwarder.listen():
        yield Place(port, seen)


async def test_what_its_own_page_asks_is_passed_on_and_the_answer_back() -> None:
    async with serving() as place:
        said = await place.ask("PUT", "/api/contents/a.ipynb", "X-XSRFToken: one", "Cookie: x=1", body=b"{}")
    assert said.startswith(b"HTTP/1.1 200")
    (request,) = place.seen
    assert request.startswith(b"PUT /api/contents/a.ipynb HTTP/1.1\r\n")
    assert b"x-xsrftoken: one" in request.lower()
    assert b"cookie: x=1" in request.lower()
    assert request.endswith(b"\r\n\r\n{}")


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (["Host: other.localhost:{port}"], 421),
        (["Host: course.localhost"], 421),
        (["Host: localhost:{port}"], 421),
        (["Host: 127.0.0.1:{port}"], 421),
        (["Host: course.localhost:{port}.evil.example"], 421),
        (["Host: evil.example"], 421),
        (["Origin: http://evil.example"], 403),
        (["Origin: http://other.localhost:{port}"], 403),
        (["Origin: https://course.localhost:{port}"], 403),
        (["Origin: null"], 403),
        (["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image"], 403),
        (["Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"], 403),
        (["Upgrade: websocket", "Connection: Upgrade", "Origin: http://evil.example"], 403),
        (["Service-Worker: script"], 403),
    ],
)
@pytest.mark.parametrize("path", ["/api", "/.gpunion/page.txt"])
async def test_other_names_and_other_sites_get_nothing(lines: list[str], status: int, path: str) -> None:
    async with serving() as place:
        said = await place.ask("GET", path, *(line.format(port=place.port) for line in lines))
    assert said.startswith(f"HTTP/1.1 {status} ".encode()), said
    assert place.seen == []


async def test_a_link_from_elsewhere_may_be_followed_and_a_form_may_not_be_posted() -> None:
    came = ("Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document")
    async with serving() as place:
        assert (await place.ask("GET", "/lab", *came)).startswith(b"HTTP/1.1 200")
        assert (await place.ask("POST", "/api/kernels", *came, body=b"x")).startswith(b"HTTP/1.1 403")
    assert len(place.seen) == 1


@pytest.mark.parametrize(
    "request_",
    [
        b"GET /api HTTP/1.1\r\nHost: %(host)s\r\nHost: evil.example\r\n\r\n",
        b"POST /api HTTP/1.1\r\nHost: %(host)s\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"POST /api HTTP/1.1\r\nHost: %(host)s\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"GET /api HTTP/1.1\r\nHost : %(host)s\r\n\r\n",
        b"GET /api\x00 HTTP/1.1\r\nHost: %(host)s\r\n\r\n",
        b"\x16\x03\x01 not http at all\r\n\r\n",
        b"GET /api HTTP/1.1\r\nHost: %(host)s\r\nX: " + b"a" * 200_000 + b"\r\n\r\n",
    ],
)
async def test_what_two_readers_could_read_differently_reaches_nobody(request_: bytes) -> None:
    async with serving() as place:
        said = await place.raw(request_.replace(b"%(host)s", place.host.encode()))
    assert said.startswith((b"HTTP/1.1 4", b"HTTP/1.1 501")), said
    assert place.seen == []


async def test_a_second_request_hidden_behind_two_lengths_is_none() -> None:
    """By its length the body ends before the second request; by its chunks it holds it. One reading counts,
    here as there: what is passed on is written anew."""
    hidden = b"GET /secret HTTP/1.1\r\nHost: evil.example\r\n\r\n"
    async with serving() as place:
        head = f"PUT /api HTTP/1.1\r\nHost: {place.host}\r\nConnection: close\r\n".encode()
        chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(hidden), hidden)
        await place.raw(head + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks)
    for request in place.seen:
        assert request.startswith(b"PUT /api")
        said = request.lower().partition(b"\r\n\r\n")[0]
        assert (b"transfer-encoding" in said) is not (b"content-length" in said)
        assert request.index(b"GET /secret") > request.index(b"\r\n\r\n")


async def test_a_guest_whose_answer_has_no_end_of_its_head_is_given_up() -> None:
    async with serving(lambda request: b"HTTP/1.1 200 OK\r\n" + b"X: " + b"a" * 200_000) as place:
        said = await place.ask()
    assert said.startswith(b"HTTP/1.1 503"), said[:100]


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "POST", "PATCH"])
async def test_what_can_do_no_harm_twice_is_asked_again_where_the_session_moved(method: str) -> None:
    answers = iter([None, OK])
    async with serving(lambda request: next(answers)) as place:
        said = await place.ask(method, "/api/x", body=b"{}" if method != "GET" else b"")
    again = method in REPEATABLE
    assert said.startswith(b"HTTP/1.1 200" if again else b"HTTP/1.1 503"), said
    assert len(place.seen) == (2 if again else 1)


@pytest.mark.parametrize(
    ("body", "times"),
    [
        (b'{"type": "file", "format": "base64", "chunk": 2, "content": "QUJD"}', 1),
        (b'{"chunk":-1,"content":"QUJD"}', 1),
        (b'{"type": "file", "format": "text", "content": "a \\"chunk\\" of it"}', 2),
    ],
)
async def test_a_piece_of_an_upload_is_not_sent_twice_since_it_would_be_there_twice(
    body: bytes, times: int
) -> None:
    answers = iter([None, OK])
    async with serving(lambda request: next(answers)) as place:
        said = await place.ask("PUT", "/api/contents/big.bin", body=body)
    assert len(place.seen) == times
    assert said.startswith(b"HTTP/1.1 200" if times == 2 else b"HTTP/1.1 503")


async def test_nothing_a_session_sends_stays_in_the_browser_for_the_next_one_of_its_name() -> None:
    answer = (
        b"HTTP/1.1 200 OK\r\nCache-Control: public, max-age=31536000, immutable\r\n"
        b"Expires: Thu, 01 Jan 2099 00:00:00 GMT\r\nContent-Length: %d\r\n\r\n"
    )
    for size in (2, LARGE_BYTES):
        async with serving(lambda request, size=size: answer % size + b"x" * size) as place:  # type: ignore[misc]
            head = (await place.ask("GET", "/static/lab/main.js")).lower().partition(b"\r\n\r\n")[0]
        assert head.count(b"cache-control") == 1
        assert b"cache-control: no-store" in head
        assert b"expires" not in head


async def test_a_download_arrives_whole_and_nothing_of_what_the_guest_sends_behind_it() -> None:
    body = bytes(range(256)) * 40_000
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nX-Other: kept\r\n\r\n" % len(body)
    async with serving(lambda request: head + body + b"HTTP/1.1 200 OK\r\n\r\nforged") as place:
        said = await place.ask("GET", "/files/large.bin")
        assert (await place.ask("HEAD", "/files/large.bin")).endswith(b"\r\n\r\n")
    told, _, arrived = said.partition(b"\r\n\r\n")
    assert b"x-other: kept" in told.lower()
    assert arrived == body


async def test_who_waited_too_long_is_told_where_the_session_is() -> None:
    problem = ApiProblem(
        code="session_away", title="", status=503, detail="it waits for <a> machine", next_step="again"
    )
    async with serving(refusal=lambda: problem) as place:
        page = await place.ask("GET", "/lab", "Accept: text/html")
        program = await place.ask("GET", "/api", "Accept: application/json")
    assert page.startswith(b"HTTP/1.1 503")
    assert b"it waits for &lt;a&gt; machine" in page
    assert b'http-equiv="refresh"' in page
    assert b'{"message": "This session is on its way: it waits for <a> machine."' in program


async def test_one_that_is_over_says_so() -> None:
    problem = ApiProblem(code="session_over", title="", status=410, detail="it is over", next_step="sync")
    async with serving(refusal=lambda: problem) as place:
        assert (await place.ask("GET", "/lab", "Accept: text/html")).startswith(b"HTTP/1.1 410")


async def test_a_guest_does_not_let_its_pages_leave_a_worker_over_all_of_its_name() -> None:
    answer = b"HTTP/1.1 200 OK\r\nService-Worker-Allowed: /\r\nContent-Length: 2\r\n\r\nok"
    async with serving(lambda request: answer) as place:
        assert b"service-worker" not in (await place.ask()).lower()


async def test_our_own_pages_are_read_and_nothing_else_of_ours_is_there() -> None:
    async with serving() as place:
        assert (await place.ask("GET", "/.gpunion/page.txt")).endswith(b"ours")
        assert (await place.ask("GET", "/.gpunion/../etc/passwd")).startswith(b"HTTP/1.1 404")
        assert (await place.ask("POST", "/.gpunion/page.txt", body=b"x")).startswith(b"HTTP/1.1 405")
    assert place.seen == []


async def test_many_requests_follow_each_other_on_one_connection_and_each_is_looked_at() -> None:
    async with serving() as place:
        good = f"GET /api HTTP/1.1\r\nHost: {place.host}\r\n\r\n".encode()
        bad = f"GET /api HTTP/1.1\r\nHost: {place.host}\r\nOrigin: http://evil.example\r\n\r\n".encode()
        said = await place.raw(good + good + bad + good)
    assert said.count(b"HTTP/1.1 200") == 2
    assert said.count(b"HTTP/1.1 403") == 1
    assert len(place.seen) == 2


async def test_who_says_nothing_is_hung_up_on() -> None:
    async with serving(head_limit_s=0.05) as place:
        assert await place.raw(b"") == b""
        assert await place.raw(b"GET /api HTTP/1.1\r\nHost: ") == b""


async def test_those_who_say_nothing_keep_nobody_out() -> None:
    async with serving(connections_max=4) as place, contextlib.AsyncExitStack() as stack:
        silent = [await asyncio.open_connection("127.0.0.1", place.port) for _ in range(9)]
        for _, writer in silent:
            stack.callback(writer.close)
        assert (await place.ask()).startswith(b"HTTP/1.1 200")
        async with asyncio.timeout(LIMIT_S):
            with contextlib.suppress(ConnectionError):
                assert await silent[0][0].read() == b""  # the oldest goes first
