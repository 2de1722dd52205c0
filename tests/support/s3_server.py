"""An S3 server on loopback: moto's, whose requests a test counts, delays, fails or stops at.

    with S3Server() as server:
        address = server.address("bucket/staging")
        server.faults[7] = Fault.BUSY

Each server has its own requests; buckets belong to the process, so a test takes a bucket of its own.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, Final, Self
from urllib.parse import quote

import pyarrow.fs as pafs
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

REGION: Final = "us-east-1"
LATE_S: Final = 0.05
Start = Callable[..., Any]


class Fault(Enum):
    """What becomes of a request."""

    BUSY = "503 Slow Down"  # not done
    BROKEN = "500 Internal Server Error"  # done, but the client is not told
    RESET = "reset"  # not done, and the connection breaks
    LOST = "lost"  # done, and the connection breaks
    LATE = "late"  # done, and answered late


class S3Server:
    """One server; ``faults`` by the number of a request, ``rule`` for the others."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.faults: dict[int, Fault] = {}
        self.rule: Callable[[int, str], Fault | None] = lambda number, request: None
        self.before: dict[int, Callable[[], object]] = {}
        self.after: dict[int, Callable[[], object]] = {}
        self._application = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._serve, threaded=True)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self._server.server_port}"

    def address(self, path: str, scheme: str = "s3") -> str:
        """The address of a directory, with all that a client needs but credentials."""
        return f"{scheme}://{path}?endpoint_override={quote(self.endpoint)}&scheme=http&region={REGION}"

    def filesystem(self) -> pafs.S3FileSystem:
        return pafs.S3FileSystem(
            endpoint_override=self.endpoint, scheme="http", region=REGION, allow_bucket_creation=True
        )

    def create_bucket(self, name: str) -> None:
        self.filesystem().create_dir(name)
        self.forget()

    def forget(self) -> None:
        """Count requests from 0 again, without faults."""
        with self._lock:
            self.requests.clear()
            self.faults.clear()
            self.before.clear()
            self.after.clear()
            self.rule = lambda number, request: None

    def _serve(self, environ: dict[str, Any], start_response: Start) -> Iterable[bytes]:
        with self._lock:
            number = len(self.requests)
            request = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}"
            self.requests.append(request)
            fault = self.faults.get(number) or self.rule(number, request)
            before, after = self.before.get(number), self.after.get(number)
        body = environ["wsgi.input"]  # read by the application; what it leaves, the client would send in vain
        if fault is Fault.BUSY:
            body.read(int(environ.get("CONTENT_LENGTH") or 0))
            return refuse(start_response, fault, "SlowDown")
        if fault is Fault.RESET:
            return reset(environ)
        if before is not None:
            before()
        answer = list(self._application(environ, start_response))
        if after is not None:
            after()
        if fault is Fault.LATE:
            time.sleep(LATE_S)
        if fault is Fault.LOST:
            return reset(environ)
        if fault is Fault.BROKEN:
            return refuse(start_response, fault, "InternalError")
        return answer


def refuse(start_response: Start, fault: Fault, code: str) -> list[bytes]:
    """The answer of a server that cannot do it now."""
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{fault.value}</Message></Error>".encode()
    headers = [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))]
    try:
        start_response(fault.value, headers)
    except AssertionError:  # the application has begun its own answer, and nothing of it is sent yet
        start_response(fault.value, headers, (AssertionError, AssertionError(), None))
    return [body]


def reset(environ: dict[str, Any]) -> list[bytes]:
    """Break the connection."""
    connection: socket.socket = environ["werkzeug.socket"]
    connection.shutdown(socket.SHUT_RDWR)
    raise ConnectionResetError("a test breaks the connection")
