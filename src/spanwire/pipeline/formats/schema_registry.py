"""A client of schema registries with Confluent's REST interface.

    registry = SchemaRegistry("https://registry:8081", user="app", password="…")
    order = registry.find("orders-value")

Requests run on the driver and in workers, so a registry can be pickled. Workers keep fetched schemas.

https://docs.confluent.io/platform/current/schema-registry/develop/api.html
"""

from __future__ import annotations

import base64
import json
import os
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Final
from urllib.parse import SplitResult, quote, urlsplit

from spanwire.model.errors import ConfigurationError, MessageFormatError, SpanwireError
from spanwire.model.units import MIB

AVRO: Final = "AVRO"
JSON: Final = "JSON"
PROTOBUF: Final = "PROTOBUF"
KINDS: Final = (AVRO, JSON, PROTOBUF)
LATEST: Final = "latest"
SERIALIZED: Final = "serialized"  # a Protobuf file as a base64 descriptor in place of its source
USER_VARIABLE: Final = "SPANWIRE_REGISTRY_USER"
PASSWORD_VARIABLE: Final = "SPANWIRE_REGISTRY_PASSWORD"
MEDIA_TYPE: Final = "application/vnd.schemaregistry.v1+json"
MAX_ANSWER_BYTES: Final = 4 * MIB  # bounds the memory for one schema; registries themselves refuse larger schemas
MAX_SHOWN: Final = 200  # characters of an answer in an error
ATTEMPTS: Final = 3
PAUSES_S: Final = (0.2, 1.0)  # before the second and the third attempt
DEFAULT_TIMEOUT_S: Final = 10.0
NO_SUCH_SCHEMA: Final = 40403  # error codes of Confluent's interface
NO_SUCH_SUBJECT: Final = (40401, 40402)
OVERLOADED: Final = 429


class RegistryError(SpanwireError):
    """The schema registry cannot be reached, refuses a request, or sends an unexpected answer."""


class UnknownSchemaError(MessageFormatError):
    """The registry has no schema with the id of a body."""


@dataclass(frozen=True, slots=True)
class StoredSchema:
    """A schema with an id; ``references`` are the names of imported schemas."""

    number: int
    kind: str
    text: str
    references: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema of a subject in a registry. Bodies with a registered schema are framed."""

    registry: SchemaRegistry
    subject: str
    stored: StoredSchema

    @property
    def id(self) -> int:
        """The id in the header of bodies."""
        return self.stored.number

    @property
    def text(self) -> str:
        """The source of the schema."""
        return self.stored.text


@dataclass(frozen=True, slots=True)
class SchemaRegistry:
    """A schema registry: address, login and certificates.

    Args:
        url: the address, ``http://`` or ``https://``, with the path of the interface, if any.
        user: the user name. Without a user name, ``SPANWIRE_REGISTRY_USER`` and ``SPANWIRE_REGISTRY_PASSWORD`` of the
            environment are the login. The environment is read on the driver, by the constructor.
        password: the password; no log, error or plan shows the password.
        ca_file: a file with the trusted certificate authorities, by default those of the system.
        timeout_s: the longest wait for a connection or for a part of an answer.

    Raises:
        ConfigurationError: the address has another scheme, or a password in it.
    """

    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)  # not a Secret, because Spark pickles it
    ca_file: str | None = None
    timeout_s: float = DEFAULT_TIMEOUT_S

    def __post_init__(self) -> None:
        address = parse_address(self.url)
        if address.username is not None or address.password is not None:
            raise ConfigurationError("spanwire: the address of a schema registry has a login; write user and password")
        if self.timeout_s <= 0:
            raise ConfigurationError("spanwire: timeout_s of a schema registry is a positive number of seconds")
        if self.user is None and self.password is None:
            object.__setattr__(self, "user", os.environ.get(USER_VARIABLE))
            object.__setattr__(self, "password", os.environ.get(PASSWORD_VARIABLE))

    def find(self, subject: str, version: int | str = LATEST) -> RegisteredSchema:
        """Return a schema of a subject, such as ``orders-value``.

        Args:
            subject: the name of the subject.
            version: the number of the version; the latest by default.

        Raises:
            RegistryError: there is no such version, or the registry does not answer.
        """
        answer = self._ask("GET", f"/subjects/{quote(subject, safe='')}/versions/{quote(str(version), safe='')}")
        if not isinstance(answer, dict):
            lacking = "schema yet" if version == LATEST else f"version {version}"
            raise RegistryError(
                f"schema registry {self.url}: the subject {subject} has no {lacking}, or does not exist; "
                "check its name, or register a schema of it"
            )
        return RegisteredSchema(self, subject, stored_schema(answer, self.url, whole_number(answer, "id", self.url)))

    def register(self, subject: str, text: str, kind: str = AVRO) -> RegisteredSchema:
        """Return a schema of a subject, and register the schema if it is new.

        Args:
            subject: the name of the subject.
            text: the source of the schema; for Protobuf the source or a file descriptor in base64.
            kind: ``AVRO``, ``JSON`` or ``PROTOBUF``.

        Raises:
            ConfigurationError: ``kind`` is unknown.
            RegistryError: the registry refuses the schema, or does not answer.
        """
        if kind not in KINDS:
            raise ConfigurationError(f"spanwire: {kind[:60]!r} is not a kind of schema; there are {', '.join(KINDS)}")
        request = json.dumps({"schema": text} if kind == AVRO else {"schema": text, "schemaType": kind})
        answer = self._ask("POST", f"/subjects/{quote(subject, safe='')}/versions", request.encode())
        if not isinstance(answer, dict):
            raise RegistryError(f"schema registry {self.url}: the subject {subject} takes no schema")
        return RegisteredSchema(self, subject, StoredSchema(whole_number(answer, "id", self.url), kind, text))

    def schema(self, number: int, form: str = "") -> StoredSchema:
        """Return the schema with an id.

        Args:
            number: the id.
            form: the ``format`` of the answer; the registry's default by default.

        Raises:
            UnknownSchemaError: the registry has no such schema.
            RegistryError: the registry does not answer.
        """
        answer = self._ask("GET", f"/schemas/ids/{number}" + (f"?format={form}" if form else ""))
        if not isinstance(answer, dict):
            raise UnknownSchemaError(f"the schema registry has no schema {number}")
        return stored_schema(answer, self.url, number)

    def _ask(self, method: str, path: str, body: bytes | None = None) -> object:
        """Return the JSON of an answer, or ``None`` if the registry knows no such schema, subject or version."""
        return ask_again(lambda: self._ask_once(method, path, body), time.sleep)

    def _ask_once(self, method: str, path: str, body: bytes | None) -> object:
        address = parse_address(self.url)
        assert address.hostname is not None
        connection = self._connection(address)
        try:
            connection.request(method, address.path.rstrip("/") + path, body, self._headers(body is not None))
            response = connection.getresponse()
            octets = response.read(MAX_ANSWER_BYTES + 1)
            status = response.status
        except (OSError, HTTPException) as error:
            raise UnreachableError(f"schema registry {self.url}: {type(error).__name__}: {error}") from None
        finally:
            connection.close()
        if len(octets) > MAX_ANSWER_BYTES:
            raise RegistryError(f"schema registry {self.url}: an answer is larger than {MAX_ANSWER_BYTES} octets")
        return self._judged(status, octets)

    def _connection(self, address: SplitResult) -> HTTPConnection:
        assert address.hostname is not None
        if address.scheme == "http":
            return HTTPConnection(address.hostname, address.port, timeout=self.timeout_s)
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise ConfigurationError(f"spanwire: ca_file {self.ca_file} cannot be read: {error}") from None
        return HTTPSConnection(address.hostname, address.port, timeout=self.timeout_s, context=context)

    def _headers(self, has_body: bool) -> dict[str, str]:
        headers = {"Accept": f"{MEDIA_TYPE}, application/json", "User-Agent": "spanwire"}
        if has_body:
            headers["Content-Type"] = MEDIA_TYPE
        if self.user is not None:
            pair = base64.b64encode(f"{self.user}:{self.password or ''}".encode()).decode()
            headers["Authorization"] = f"Basic {pair}"
        return headers

    def _judged(self, status: int, octets: bytes) -> object:
        """Return the JSON of a successful answer, or ``None`` for an unknown name.

        Raises:
            RegistryError: the registry refuses the request. `UnreachableError` if another attempt may help.
        """
        try:
            answer: object = json.loads(octets)
        except (ValueError, RecursionError):
            answer = None
        if status == 200 and isinstance(answer, dict):
            return answer
        code = answer.get("error_code") if isinstance(answer, dict) else None
        if status == 404 and code in (NO_SUCH_SCHEMA, *NO_SUCH_SUBJECT):
            return None
        if status in (401, 403):
            login = "no user" if self.user is None else f"the user {self.user}"
            raise RegistryError(
                f"schema registry {self.url} refuses {login} ({status}); set user and password, or "
                f"{USER_VARIABLE} and {PASSWORD_VARIABLE}"
            )
        reason = answer.get("message") if isinstance(answer, dict) else "no JSON; is this the address of a registry?"
        fault = f"schema registry {self.url} answers {status}: {one_line(reason)}"
        raise UnreachableError(fault) if status >= 500 or status == OVERLOADED else RegistryError(fault)


class UnreachableError(RegistryError):
    """The registry does not answer now; another attempt may help."""


def ask_again(ask: Callable[[], object], sleep: Callable[[float], None]) -> object:
    """Return the answer of a request, with up to `ATTEMPTS` attempts.

    Raises:
        RegistryError: the last attempt fails, or the registry refuses the request.
    """
    for pause in PAUSES_S:
        try:
            return ask()
        except UnreachableError:
            sleep(pause)
    return ask()


def parse_address(url: str) -> SplitResult:
    """Return the parts of the address of a registry.

    Raises:
        ConfigurationError: the address is not ``http://HOST:PORT`` or ``https://HOST:PORT``.
    """
    try:
        address = urlsplit(url)
        is_good = address.scheme in ("http", "https") and bool(address.hostname) and address.port != 0
    except ValueError:
        is_good = False
    if not is_good or address.query or address.fragment:
        raise ConfigurationError("spanwire: the address of a schema registry is http://HOST:PORT or https://HOST:PORT")
    return address


def stored_schema(answer: dict[str, object], url: str, number: int) -> StoredSchema:
    """Return the schema of an answer.

    Raises:
        RegistryError: the answer has no schema.
    """
    kind, text, references = answer.get("schemaType", AVRO), answer.get("schema"), answer.get("references") or []
    if not isinstance(text, str) or not isinstance(kind, str) or not isinstance(references, list):
        raise RegistryError(f"schema registry {url}: the answer for schema {number} has no schema")
    names = [str(one.get("name")) if isinstance(one, dict) else str(one) for one in references]
    return StoredSchema(number, kind, text, tuple(names))


def whole_number(answer: dict[str, object], name: str, url: str) -> int:
    """Return a non-negative integer of an answer.

    Raises:
        RegistryError: the answer has no such number.
    """
    value = answer.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise RegistryError(f"schema registry {url}: an answer has no {name}")
    return value


def one_line(reason: object) -> str:
    """Return the beginning of an explanation in one line."""
    return " ".join(str(reason).split())[:MAX_SHOWN]
