"""Access: turns the credentials of a request into a handle of the broker, and caches the handle."""

from __future__ import annotations

import base64
import binascii
import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from spanwire.management.control_client import ControlError
from spanwire.management.tables.operation_table import Role
from spanwire.web.link import Link
from spanwire.web.problems import ProblemError, problem_of

MAX_CALLERS: Final = 1_000  # handles kept; as many as the broker gives
MARGIN_S: Final = 5.0  # seconds before its end from which a handle is no longer used


@dataclass(frozen=True, slots=True)
class Caller:
    """A logged-in user."""

    user: str
    role: Role
    handle: str


NOBODY: Final = Caller("", Role.NONE, "")


class Access:
    """Logs callers in. The broker checks the credentials and decides about the role."""

    def __init__(self, link: Link, now: Callable[[], float] = time.monotonic, *, is_guarded: bool = False) -> None:
        """With ``is_guarded`` each login asks the broker first if the port may be open to other machines."""
        self._is_guarded: Final = is_guarded
        self._link: Final = link
        self._now: Final = now
        self._callers: Final[dict[bytes, tuple[Caller, float]]] = {}

    async def caller(self, authorization: str | None, address: str) -> Caller:
        """Return the caller of a request.

        Args:
            authorization: the ``Authorization`` header, if any.
            address: the client's address, ``http://host:port``.

        Raises:
            ProblemError: the credentials are missing, malformed or wrong
        """
        key = _key(authorization, address)
        known = self._callers.get(key)
        if known is not None and known[1] > self._now():
            return known[0]
        user, password = read_credentials(authorization)
        try:
            if self._is_guarded:
                await self.refuse_exposure()
            answer = await self._link.ask("login", user=user, password=password, address=address)
        except ControlError as error:
            raise problem_of(error) from error
        if not isinstance(answer, dict):
            raise ProblemError(HTTPStatus.BAD_GATEWAY, "the broker's answer to a login has another form than expected")
        caller = Caller(str(answer["user"]), Role[str(answer["role"]).upper()], str(answer["handle"]))
        self._callers.pop(key, None)
        while len(self._callers) >= MAX_CALLERS:
            del self._callers[next(iter(self._callers))]
        self._callers[key] = (caller, self._now() + float(answer["lifetime_s"]) - MARGIN_S)
        return caller

    async def admit(self, user: str | None, password: str | None, host: str) -> None:
        """Check a user for a connection to the broker as a client: the realm guards a broker without users.

        Raises:
            ProblemError: the user is not in the realm, or the port may not be open to other machines
        """
        try:
            if (await self.refuse_exposure()).get("realm"):
                await self._link.ask("login", user=user, password=password, address=f"http://{host}:0")
        except ControlError as error:
            raise problem_of(error) from error

    async def refuse_exposure(self) -> dict[str, object]:
        """Return the guards of the port.

        Raises:
            ProblemError: the port is open to other machines, and the broker no longer has users
        """
        answer = await self._link.ask("exposure")
        guards = answer if isinstance(answer, dict) else {"obstacle": "by a broker of another version"}
        obstacle = guards.get("obstacle") if self._is_guarded else None
        if obstacle is not None:
            raise ProblemError(
                HTTPStatus.FORBIDDEN, f"this port is open to other machines {obstacle}; start it with --allow-anonymous"
            )
        return guards

    def forget(self, authorization: str | None, address: str) -> None:
        """Drop the handle of credentials after the broker has forgotten the handle."""
        self._callers.pop(_key(authorization, address), None)


def _key(authorization: str | None, address: str) -> bytes:
    """Return a digest of credentials and host, so that no password is kept."""
    host = address.rpartition(":")[0]
    return hashlib.sha256(f"{host}\n{authorization}".encode("utf-8", "surrogatepass")).digest()


def read_credentials(authorization: str | None) -> tuple[str | None, str | None]:
    """Return the user and the password of a header, or two None without a header. Raises `ProblemError`."""
    if authorization is None:
        return None, None
    scheme, _, text = authorization.partition(" ")
    try:
        if scheme.lower() != "basic":
            raise ValueError
        user, colon, password = base64.b64decode(text.strip(), validate=True).decode("utf-8").partition(":")
    except (ValueError, binascii.Error) as error:
        raise ProblemError(HTTPStatus.UNAUTHORIZED, "the Authorization header is no Basic authentication") from error
    if not colon:
        raise ProblemError(HTTPStatus.UNAUTHORIZED, "the Authorization header has no password")
    return user, password
