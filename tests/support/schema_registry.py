"""A schema registry on loopback that answers as Confluent's documentation says: schemas by id, versions of subjects,
registration, error codes.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import unquote

Stored = tuple[str, str]  # kind and text


class RegistryState:
    """The schemas of a registry by id, and its subjects; what was asked of it."""

    def __init__(self, login: str | None = None) -> None:
        """With a ``login``, user:password, others are refused."""
        self.schemas: dict[int, Stored] = {}
        self.subjects: dict[str, list[int]] = {}
        self.references: dict[int, list[dict[str, object]]] = {}
        self.login = login
        self.requests: list[str] = []
        self.failures = 0  # requests from now on that are answered 503
        self.url = ""

    def add(self, subject: str, text: str, kind: str = "AVRO") -> int:
        """Store a schema under a subject; the id of the same one stays."""
        known = {stored: number for number, stored in self.schemas.items()}
        number = known.get((kind, text)) or len(self.schemas) + 100_001
        self.schemas[number] = (kind, text)
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, object]:
        """The status and JSON of an answer."""
        path, _, query = path.partition("?")
        steps = [unquote(step) for step in path.strip("/").split("/")]
        if steps[:2] == ["schemas", "ids"] and method == "GET":
            return self._by_id(int(steps[2]), query)
        if steps[0] == "subjects" and steps[2:] == ["versions"] and method == "POST":
            request = json.loads(body)
            return 200, {"id": self.add(steps[1], request["schema"], request.get("schemaType", "AVRO"))}
        if steps[0] == "subjects" and steps[2] == "versions" and method == "GET":
            return self._version(steps[1], steps[3])
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _by_id(self, number: int, query: str) -> tuple[int, object]:
        if number not in self.schemas:
            return 404, {"error_code": 40403, "message": f"Schema {number} not found"}
        kind, text = self.schemas[number]
        shown: dict[str, object] = {"schema": text}
        if kind == "PROTOBUF" and query != "format=serialized":
            shown["schema"] = 'syntax = "proto3"; // the source of ' + base64.b64encode(text.encode()).decode()
        if kind != "AVRO":
            shown["schemaType"] = kind
        if number in self.references:
            shown["references"] = self.references[number]
        return 200, shown

    def _version(self, subject: str, version: str) -> tuple[int, object]:
        if subject not in self.subjects:
            return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
        versions = self.subjects[subject]
        place = len(versions) if version == "latest" else int(version)
        if not 1 <= place <= len(versions):
            return 404, {"error_code": 40402, "message": f"Version {version} not found."}
        number = versions[place - 1]
        _, shown = self._by_id(number, "")
        assert isinstance(shown, dict)
        return 200, {"subject": subject, "version": place, "id": number, **shown}


class Requests(BaseHTTPRequestHandler):
    """Answers from the state of its subclass."""

    state: ClassVar[RegistryState]

    def do_GET(self) -> None:
        self._respond(b"")

    def do_POST(self) -> None:
        self._respond(self.rfile.read(int(self.headers["Content-Length"])))

    def _respond(self, body: bytes) -> None:
        state = self.state
        state.requests.append(f"{self.command} {self.path}")
        login = state.login and "Basic " + base64.b64encode(state.login.encode()).decode()
        if state.failures:
            state.failures -= 1
            status, answer = 503, {"error_code": 503, "message": "Leader\nnot known"}
        elif login and self.headers.get("Authorization") != login:
            status, answer = 401, {"error_code": 401, "message": "Unauthorized"}
        else:
            status, answer = state.answer(self.command, self.path, body)  # type: ignore[assignment]
        octets = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(octets)))
        self.end_headers()
        self.wfile.write(octets)

    def log_message(self, *arguments: object) -> None:
        """Say nothing on standard error."""


@contextmanager
def running_registry(login: str | None = None, certificate: Path | None = None) -> Iterator[RegistryState]:
    """A registry on a free port, until the block ends; with TLS if it has a key and certificate."""
    state = RegistryState(login)
    handler = type("OwnRequests", (Requests,), {"state": state})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    scheme = "http"
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket, scheme = context.wrap_socket(server.socket, server_side=True), "https"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    state.url = f"{scheme}://127.0.0.1:{server.server_address[1]}"
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
