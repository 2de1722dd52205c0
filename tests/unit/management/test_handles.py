"""Handles: who gets one, which commands it allows, and when it ends."""

from __future__ import annotations

import asyncio

import pytest

from spanwire.broker.ports import Authenticator, LoginObserver, Principal
from spanwire.management.handles import (
    LIFETIME_S,
    MAX_HANDLES,
    ForbiddenError,
    Handles,
    UnknownHandleError,
    role_of,
)
from spanwire.management.tables.operation_table import COMMAND_ROLES, Role
from spanwire.model.environment import Time
from spanwire.model.errors import AuthenticationError, ConfigurationError
from spanwire.model.info import ConnectionInfo

GROUPS = {"anna": "admins", "otto": "operators", "vera": "viewers", "client": "orders"}


class Broker:
    """Duck-typed to `LoginBroker`; every password is the user's name backwards."""

    def __init__(self) -> None:
        self.infos: list[ConnectionInfo] = []

    def must_wait(self, asker: object, info: ConnectionInfo, observer: LoginObserver, now: Time) -> bool:
        return False

    def forget_login(self, asker: object) -> None:
        """Nothing waits."""

    def log_in(
        self, info: ConnectionInfo, now: Time, authenticator: Authenticator | None = None, asker: object = None
    ) -> Principal:
        self.infos.append(info)
        if authenticator is not None:
            return authenticator.authenticate(info)
        name = str(info.user_name)
        if info.password != name[::-1]:
            raise AuthenticationError("wrong")
        return Principal(name, frozenset({GROUPS[name]}))


class Clock:
    def __init__(self) -> None:
        self.monotonic = 0.0

    def now(self) -> Time:
        return Time(self.monotonic, 0)


def handles(broker: Broker, clock: Clock, is_open: bool = False) -> Handles:
    count = iter(range(MAX_HANDLES * 2))
    return Handles(broker, clock, lambda: is_open, lambda: f"h{next(count)}")


class Realm:
    """Users of the web port: their passwords are their names twice."""

    ROLES = {"admin": "admin", "user": "user", "guest": "guest"}

    def names(self, user: str | None) -> bool:
        return user in self.ROLES

    def authenticate(self, info: ConnectionInfo) -> Principal:
        name = str(info.user_name)
        if name not in self.ROLES or info.password != name * 2:
            raise AuthenticationError("wrong")
        return Principal(name, frozenset({self.ROLES[name]}))


def log_in(handles: Handles, user: object, password: object) -> dict[str, object]:
    return asyncio.run(handles.login({"user": user, "password": password, "address": "http://10.0.0.1:5"}))


@pytest.mark.parametrize("is_open", [True, False])
def test_users_of_a_realm_have_the_roles_of_activemq_s_console(is_open: bool) -> None:
    given = Handles(Broker(), Clock(), lambda: is_open, realm=Realm())
    assert log_in(given, "admin", "adminadmin")["role"] == "admin"
    assert log_in(given, "user", "useruser")["role"] == "view"
    with pytest.raises(ForbiddenError, match="user guest is in no group with a role"):
        log_in(given, "guest", "guestguest")
    with pytest.raises(AuthenticationError):
        log_in(given, "admin", "nimda")


def test_a_realm_closes_a_broker_without_users_to_all_others() -> None:
    given = Handles(Broker(), Clock(), lambda: True, realm=Realm())
    for user in (None, "anna"):
        with pytest.raises(AuthenticationError):
            log_in(given, user, user and user[::-1])


def test_beside_a_realm_the_broker_s_own_users_keep_their_roles() -> None:
    given = Handles(Broker(), Clock(), lambda: False, realm=Realm())
    assert log_in(given, "anna", "anna"[::-1])["role"] == "admin"
    assert log_in(given, "otto", "otto")["role"] == "operate"


def test_a_user_gets_a_handle_with_the_role_of_its_groups() -> None:
    broker, clock = Broker(), Clock()
    given = handles(broker, clock)
    answer = log_in(given, "otto", "otto")
    assert answer == {"handle": "h0", "role": "operate", "user": "otto", "lifetime_s": LIFETIME_S}
    assert (broker.infos[0].remote_address, broker.infos[0].protocol) == ("http://10.0.0.1:5", "http")
    assert given.checked("h0", "purge").user == "otto"


def test_s19_each_command_needs_its_role_and_others_are_refused() -> None:
    broker, clock = Broker(), Clock()
    given = handles(broker, clock)
    for user, role in (("anna", Role.ADMIN), ("otto", Role.OPERATE), ("vera", Role.VIEW)):
        handle = log_in(given, user, user[::-1])["handle"]
        for command in [*COMMAND_ROLES, "stop", "reload", "login", "exposure", "nonsense"]:
            if COMMAND_ROLES.get(command, Role.ADMIN + 1) <= role:
                assert given.checked(handle, command).role is role
            else:
                with pytest.raises(ForbiddenError):
                    given.checked(handle, command)


def test_s19_a_user_without_a_group_of_operators_gets_no_handle() -> None:
    with pytest.raises(ForbiddenError, match="client is in no group with a role"):
        log_in(handles(Broker(), Clock()), "client", "tneilc")


def test_wrong_credentials_get_no_handle() -> None:
    for password in ("x", None):
        with pytest.raises(AuthenticationError):
            log_in(handles(Broker(), Clock()), "anna", password)
    with pytest.raises(ConfigurationError):
        log_in(handles(Broker(), Clock()), 1, "x")


def test_a_handle_ends() -> None:
    clock = Clock()
    given = handles(Broker(), clock)
    handle = log_in(given, "vera", "arev")["handle"]
    clock.monotonic = LIFETIME_S - 0.1
    assert given.checked(handle, "summary").role is Role.VIEW
    clock.monotonic = LIFETIME_S
    with pytest.raises(UnknownHandleError):
        given.checked(handle, "summary")


def test_handles_are_bounded_and_the_oldest_one_goes() -> None:
    given = handles(Broker(), Clock())
    first = log_in(given, "vera", "arev")["handle"]
    for _ in range(MAX_HANDLES):
        last = log_in(given, "vera", "arev")["handle"]
    with pytest.raises(UnknownHandleError):
        given.checked(first, "summary")
    assert given.checked(last, "summary").user == "vera"


@pytest.mark.parametrize("handle", [None, 1, [], "", "h1"])
def test_an_invented_handle_is_refused(handle: object) -> None:
    with pytest.raises(UnknownHandleError):
        handles(Broker(), Clock()).checked(handle, "summary")


def test_a_broker_without_authentication_lets_everybody_view() -> None:
    broker = Broker()
    given = handles(broker, Clock(), is_open=True)
    answer = log_in(given, "root", "x")
    assert (answer["user"], answer["role"], broker.infos) == ("anonymous", "view", [])


def test_the_highest_of_several_groups_counts() -> None:
    assert role_of(frozenset({"viewers", "admins", "x"})) is Role.ADMIN
    assert role_of(frozenset()) is Role.NONE
