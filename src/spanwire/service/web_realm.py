"""Users of the web port alone, from a file of Jetty's HashLoginService (jetty-realm.properties)."""

from __future__ import annotations

import hashlib
import hmac
import logging
from typing import Final

from spanwire.broker.ports import Principal
from spanwire.broker.security.audit_log import host_of
from spanwire.model.errors import AuthenticationError, ConfigurationError
from spanwire.model.info import ConnectionInfo
from spanwire.service.config.model import UserConfiguration, UserSource, WebConfiguration
from spanwire.service.config.security.user_files import DIGEST
from spanwire.service.security import is_well_known
from spanwire.transports.admission import is_loopback

WRONG: Final = "User name or password is wrong."

logger = logging.getLogger(__name__)


class WebRealm:
    """Authenticates the users of a realm's file, and reads a changed file again.

    A well-known password, such as admin's in the file from ActiveMQ, counts for clients on the same machine alone.
    """

    def __init__(self, file: UserSource) -> None:
        """Read the file. Raises `ConfigurationError`."""
        self._file: Final = file
        self._stamp = file.stamp()
        self._users = {user.name: user for user in file.read()}

    def names(self, user: str | None) -> bool:
        """Return True if the file has the user."""
        self._read_again()
        return user in self._users

    def authenticate(self, info: ConnectionInfo) -> Principal:
        """Return the user with the roles as groups.

        Raises:
            AuthenticationError: the user is unknown, or the password is wrong or does not count at this address
        """
        self._read_again()
        user = self._users.get(info.user_name or "")
        if user is None or info.password is None or not _is_password(user, info.password):
            raise AuthenticationError(WRONG)
        if is_well_known(user.name, info.password) and not is_loopback(host_of(info.remote_address)):
            logger.warning(
                "the password of %s is well known, so it counts on this machine alone: change it in the realm's file",
                user.name[:60],
            )
            raise AuthenticationError(WRONG)
        return Principal(user.name, user.groups)

    def _read_again(self) -> None:
        """Apply a changed file; an unreadable one leaves the users unchanged."""
        try:
            stamp = self._file.stamp()
            if stamp == self._stamp:
                return
            self._stamp = stamp
            self._users = {user.name: user for user in self._file.read()}
        except ConfigurationError as error:
            logger.warning("the users of the web port stay as they were: %s", error)
            return
        logger.info("users of the web port read again: %d", len(self._users))


def web_realm(web: WebConfiguration | None) -> WebRealm | None:
    """Return the realm of a web port with a realm. Raises `ConfigurationError`."""
    return None if web is None or web.realm is None else WebRealm(web.realm)


def _is_password(user: UserConfiguration, password: str) -> bool:
    stored = user.password.reveal()
    given = password.encode("utf-8", "surrogatepass")
    if stored.startswith(DIGEST):
        digest = hashlib.md5(given, usedforsecurity=False).hexdigest()
        return hmac.compare_digest(stored.removeprefix(DIGEST).strip().lower(), digest)
    return hmac.compare_digest(stored.encode("utf-8", "surrogatepass"), given)
