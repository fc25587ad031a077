"""Tests what a client command says to do next when the bridge does not do the call."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from bridge.cli import failures
from tests.command import run_command

SEND = ("send", "orders", "1", "--id", "o-1")
OTHERS = (("get", "orders", "o-1"), ("pull", "orders"), ("list", "orders"), ("ack", "orders", "o-1"))


@contextmanager
def answering(status: int, content_type: str) -> Iterator[str]:
    """A server that gives each request the same answer, by its URL."""
    problem = json.dumps({"title": "Unavailable", "status": status, "detail": "Redis is away", "request_id": "r-1"})

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self.send_response(status)
            self.send_header("content-type", content_type)
            self.send_header("content-length", str(len(problem)))
            self.end_headers()
            self.wfile.write(problem.encode())

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        serving = Thread(target=server.serve_forever)
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            serving.join()


@pytest.mark.parametrize(("status", "content_type"), [(503, "application/problem+json"), (502, "text/html")])
def test_only_a_send_is_to_be_repeated_with_its_id(status: int, content_type: str) -> None:
    with answering(status, content_type) as url:
        for arguments in (SEND, *OTHERS):
            ended = run_command(*arguments, settings={"BRIDGE_URL": url})
            assert ended.exit_code == failures.UNAVAILABLE, ended.output
            wanted = "Try again with the same --id." if arguments is SEND else "Try again."
            assert wanted in ended.stderr
            assert ("--id" in ended.stderr) == (arguments is SEND)
