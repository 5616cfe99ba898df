"""What pages that mean harm can do to who has a session open: another site's, and a notebook's own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.sessions.browser import NotebookPage, cells, chromium
from tests.sessions.campus import LIMIT_S, a_campus

pytestmark = [
    pytest.mark.requires("jupyterlab", "playwright", "chromium", "bwrap"),
    pytest.mark.xdist_group("system"),
    pytest.mark.timeout(3 * LIMIT_S),
]

TRY = """async ([name, words]) => {
  const tries = {
    read: async (url) => (await fetch(url, {credentials: 'include'})).status,
    post: async (url) => {
      const body = new URLSearchParams({path: 'x', type: 'notebook'});
      await fetch(url, {method: 'POST', mode: 'no-cors', credentials: 'include', body});
      return 'sent';
    },
    put: async (url) => {
      const headers = {'content-type': 'application/json'};
      return (await fetch(url, {method: 'PUT', credentials: 'include', headers, body: '{}'})).status;
    },
    socket: (url) => new Promise((done) => {
      const socket = new WebSocket(url);
      socket.onopen = () => done('OPEN');
      socket.onerror = () => done('refused');
    }),
    worker: async (url) => (await navigator.serviceWorker.register(url, {scope: '/'})).scope,
    frame: (url) => new Promise((done) => {
      const frame = document.createElement('iframe');
      frame.src = url;
      frame.onload = () => {
        try { done(frame.contentDocument ? 'READABLE' : 'not readable'); } catch { done('not readable'); }
      };
      document.body.append(frame);
    }),
  };
  try { return await tries[name](words); } catch (error) { return 'blocked: ' + error.name; }
}"""


def attempt(page: Any, name: str, words: str) -> str:
    return str(page.evaluate(TRY, [name, words]))


@contextmanager
def a_site() -> Iterator[str]:
    """Another site, that its visitor's browser takes for one."""

    class Site(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>kittens</title><body>kittens")

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://kittens.localhost:{server.server_port}/"
    finally:
        server.shutdown()


def test_neither_another_site_nor_a_notebook_gets_more_than_it_has(tmp_path: Path) -> None:
    with (
        a_campus(tmp_path / "campus", "sandbox") as campus,
        campus.notebook("target") as opened,
        a_site() as site,
        chromium() as browser,
    ):
        jupyter = opened.jupyter
        jupyter.ask("PUT", "/api/contents/own.ipynb", json={"type": "notebook", "content": cells("1")})
        kernel = jupyter.ask("POST", "/api/kernels", json={})["id"]
        context = browser.new_context()
        page = NotebookPage(context, opened)
        page.open("own.ipynb")  # so that the browser has the session's cookie
        base, coordinator = opened.url.partition("/.gpunion")[0], campus.campus.url
        files = [one["name"] for one in jupyter.ask("GET", "/api/contents")["content"]]

        evil = context.new_page()
        evil.goto(site)
        assert attempt(evil, "read", f"{base}/api/contents") == "blocked: TypeError"
        assert attempt(evil, "read", f"{base}/.gpunion/state.json") == "blocked: TypeError"
        attempt(evil, "post", f"{base}/api/contents")
        attempt(evil, "post", f"{base}/api/kernels")
        assert attempt(evil, "put", f"{base}/api/contents/evil.txt") == "blocked: TypeError"
        channel = f"{base.replace('http', 'ws', 1)}/api/kernels/{kernel}/channels"
        assert attempt(evil, "socket", channel) == "refused"
        assert attempt(evil, "frame", f"{base}/.gpunion/") == "not readable"
        assert not any(frame.url.startswith(base) for frame in evil.frames)
        attempt(evil, "post", f"{coordinator}/api/v1/sessions/target/end")

        # What runs in the notebook is on its own host name, and has the session's cookie: no more than that.
        notebook = next(frame for frame in page.page.frames if "/lab" in frame.url)
        assert attempt(notebook, "read", f"{coordinator}/api/v1/jobs") == "blocked: TypeError"
        attempt(notebook, "post", f"{coordinator}/api/v1/sessions/target/end")
        assert attempt(notebook, "put", "/.gpunion/state.json") == "405"
        put = {"type": "file", "format": "text", "content": "self.addEventListener('fetch', () => {})"}
        jupyter.ask("PUT", "/api/contents/worker.js", json=put)
        attempt(notebook, "worker", "/files/worker.js")  # of its own host name it may take what it likes
        other = context.new_page()
        other.goto(f"{coordinator}/api/v1/health", wait_until="commit")
        assert other.evaluate("navigator.serviceWorker?.controller ?? null") is None

        assert other.evaluate("navigator.serviceWorker?.controller ?? null") is None

        now = [one["name"] for one in jupyter.ask("GET", "/api/contents")["content"]]
        assert [name for name in now if name != "worker.js"] == files
        assert len(jupyter.ask("GET", "/api/kernels")) == 2
        assert campus.session("target")["phase"] == "running"
        asking = "fetch('state.json', {headers: {authorization: 'token ' + sessionStorage.getItem('key')}})"
        assert "token" not in page.page.evaluate(f"{asking}.then((answer) => answer.json())")
        assert page.page.evaluate("fetch('state.json').then((answer) => answer.status)") == 401
