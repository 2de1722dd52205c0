"""Logging in: users, guests, stacks of login modules; and what becomes of those who guess."""

from __future__ import annotations

import pytest

from spanwire.broker.ports import Principal
from spanwire.broker.security import authentication
from spanwire.broker.security.authentication import (
    OPTIONAL,
    REQUIRED,
    REQUISITE,
    SUFFICIENT,
    GuestModule,
    LoginStack,
    StackEntry,
    User,
    UsersModule,
    simple_authenticator,
)
from spanwire.broker.security.login_throttle import (
    ADDRESS_FAILURES,
    ADDRESS_RECOVERY,
    FORGET_AFTER,
    FREE_FAILURES,
    MAX_DELAY,
    MAX_ENTRIES,
    FailedLogins,
    network_of,
)
from spanwire.model.errors import AuthenticationError, SpanwireError
from spanwire.model.info import ConnectionInfo
from spanwire.model.secret import Secret
from tests.support.canary import CANARY
from tests.support.dialogue.broker_dialogue import Stage


def user(name: str, *groups: str, password: str = CANARY) -> User:
    return User(name, Secret(password), frozenset(groups))


def info(
    name: str | None, password: str | None, address: str = "tcp://10.0.0.1:5000", number: int = 1
) -> ConnectionInfo:
    return ConnectionInfo(f"ID:c:{number}", f"c{number}", name, password, address, "test")


def refusal(stack: LoginStack, name: str | None, password: str | None) -> str:
    with pytest.raises(AuthenticationError) as raised:
        stack.authenticate(info(name, password))
    return str(raised.value)


def test_a_user_logs_in_with_his_password_only() -> None:
    stack = simple_authenticator([user("user", "users", "all")], None)
    principal = stack.authenticate(info("user", CANARY))
    assert (principal.name, principal.groups) == ("user", frozenset({"users", "all"}))
    for name, password in (("user", "x"), ("user", None), ("user", ""), ("User", CANARY), ("user ", CANARY)):
        assert refusal(stack, name, password) == f"User name [{name}] or password is invalid."


def test_nobody_and_a_user_without_a_name_are_refused_with_activemqs_words() -> None:
    stack = simple_authenticator([user("user")], None)
    assert refusal(stack, None, None) == "User name [null] or password is invalid."
    assert refusal(stack, "", "") == "User name [] or password is invalid."
    assert refusal(stack, "nobody", CANARY) == "User name [nobody] or password is invalid."


def test_a_refusal_repeats_only_so_much_of_a_name() -> None:
    assert len(refusal(simple_authenticator([], None), "x" * 100_000, None)) < 400


def test_anonymous_clients_are_those_that_give_neither_name_nor_password() -> None:
    stack = simple_authenticator([user("user")], Principal("anonymous", frozenset({"anonymous"})))
    assert stack.authenticate(info(None, None)).name == "anonymous"
    assert stack.authenticate(info("user", CANARY)).name == "user"
    for name, password in (("user", "wrong"), ("anonymous", None), (None, CANARY), ("", "")):
        assert "is invalid" in refusal(stack, name, password)


def test_s33_an_unknown_name_costs_the_same_comparison_as_a_wrong_password() -> None:
    """Both ways end in one comparison of two digests of equal length."""
    module = UsersModule([user("user")])
    assert len(module._nobody) == len(user("user").digest) == len(authentication.digest_of("x" * 1000))
    assert module.login(info("nobody", "")) is None, "the stand-in for unknown names has no password that fits"


GUEST = GuestModule(Principal("guest", frozenset({"guests"})), without_credentials=False)
SHY_GUEST = GuestModule(Principal("guest", frozenset({"guests"})), without_credentials=True)
USERS = UsersModule([user("user", "users")])


@pytest.mark.parametrize(
    ("entries", "with_password", "without"),
    [
        ([(SUFFICIENT, USERS), (SUFFICIENT, GUEST)], "user:users", "guest:guests"),
        ([(SUFFICIENT, SHY_GUEST), (REQUISITE, USERS)], "user:users", "guest:guests"),
        ([(REQUIRED, USERS)], "user:users", None),
        ([(OPTIONAL, USERS)], "user:users", None),
        ([(OPTIONAL, USERS), (REQUIRED, GUEST)], "user:guests users", "guest:guests"),
        ([(REQUIRED, USERS), (SUFFICIENT, GUEST)], "user:guests users", None),
        ([(REQUISITE, USERS), (REQUIRED, GUEST)], "user:guests users", None),
        ([(REQUIRED, SHY_GUEST), (REQUIRED, USERS)], None, None),
        ([], None, None),
    ],
)
def test_flags_of_login_modules_are_those_of_jaas(
    entries: list[tuple[str, authentication.LoginModule]], with_password: str | None, without: str | None
) -> None:
    stack = LoginStack([StackEntry(flag, module) for flag, module in entries])
    for credentials, expected in (("user", CANARY), with_password), ((None, None), without):
        try:
            principal = stack.authenticate(info(*credentials))
        except AuthenticationError:
            assert expected is None
        else:
            assert f"{principal.name}:{' '.join(sorted(principal.groups))}" == expected


def test_users_can_be_replaced_while_connections_live_on() -> None:
    module = UsersModule([user("old")])
    stack = LoginStack([StackEntry(REQUIRED, module)])
    stack.authenticate(info("old", CANARY))
    module.replace([user("new")])
    assert "is invalid" in refusal(stack, "old", CANARY)
    assert stack.authenticate(info("new", CANARY)).name == "new"


def test_the_wait_doubles_and_ends() -> None:
    failed = FailedLogins()
    now = 1000.0
    for _ in range(FREE_FAILURES - 1):
        failed.count_failure("h", "u", now)
        assert failed.wait("h", "u", now) == 0
    waits = []
    for _ in range(9):
        failed.count_failure("h", "u", now)
        waits.append(failed.wait("h", "u", now))
        now += waits[-1]
        assert failed.wait("h", "u", now) == 0
    assert waits == [1, 2, 4, 8, 16, 32, MAX_DELAY, MAX_DELAY, MAX_DELAY]
    assert failed.wait("h", "u", now + FORGET_AFTER + 1) == 0
    failed.count_failure("h", "u", now + FORGET_AFTER + 1)
    assert failed.wait("h", "u", now + FORGET_AFTER + 1) == 0, "a name that was quiet starts afresh"


def test_neighbours_and_other_names_do_not_wait() -> None:
    failed = FailedLogins()
    for _ in range(20):
        failed.count_failure("h", "u", 0.0)
    assert failed.wait("h", "u", 0.0) > 0
    assert failed.wait("h", "other", 0.0) == 0
    assert failed.wait("h", None, 0.0) == 0
    assert failed.wait("i", "u", 0.0) == 0


def test_ever_new_names_from_one_address_run_into_its_limit() -> None:
    failed = FailedLogins()
    tried = 0
    for number in range(1000):
        if failed.wait("h", f"u{number}", 0.0) == 0:
            tried += 1
            failed.count_failure("h", f"u{number}", 0.0)
    assert tried == ADDRESS_FAILURES
    assert failed.wait("h", "anybody", ADDRESS_RECOVERY) == 0
    assert failed.wait("i", "anybody", 0.0) == 0


def test_a_success_forgives_the_name_and_not_the_address() -> None:
    failed = FailedLogins()
    for number in range(ADDRESS_FAILURES):
        failed.count_failure("h", f"u{number}", 0.0)
        failed.clear_failures("h", f"u{number}")
    assert failed.wait("h", "fresh", 0.0) > 0


def test_the_tables_are_bounded() -> None:
    failed = FailedLogins()
    for number in range(3 * MAX_ENTRIES):
        failed.count_failure(f"h{number}", "u" * 10_000, 0.0)
    assert len(failed) <= 2 * MAX_ENTRIES


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("2001:db8::1", "2001:db8::"),
        ("[2001:db8:0:0:ffff::2]", "2001:db8::"),
        ("2001:db8:0:1::1", "2001:db8:0:1::"),
        ("fe80::1%eth0", "fe80::"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("not:an:address", "not:an:address"),
        ("", ""),
    ],
)
def test_all_addresses_that_one_ipv6_machine_can_have_count_as_one(host: str, network: str) -> None:
    assert network_of(host) == network


class Counting:
    """Knows one user and counts how often it was asked."""

    def __init__(self) -> None:
        self.stack = simple_authenticator([user("user")], None)
        self.asked = 0

    def authenticate(self, connection: ConnectionInfo) -> Principal:
        self.asked += 1
        return self.stack.authenticate(connection)


class Silent:
    """A connection that nobody talks to. Duck-typed to `ClientConnection`."""

    def on_completed(self, token: int, error: SpanwireError | None) -> None:
        raise AssertionError("nothing was asked")

    def close_with(self, error: SpanwireError) -> None:
        raise AssertionError("nothing ended")


def test_s33_ten_thousand_bad_logins_try_few_passwords_and_harm_no_neighbour() -> None:
    door = Counting()
    stage = Stage(authenticator=door)
    peer = Silent()
    for number in range(10_000):
        with pytest.raises(
            AuthenticationError, match=r"is invalid|Too many failed logins from 10\.0\.0\.1: try again in"
        ):
            stage.broker.add_connection(peer, info("user", f"guess {number}", number=number), stage.now)
        stage.environment.advance(0.01)
    assert door.asked <= FREE_FAILURES + 7, "100 seconds of guessing"
    with pytest.raises(AuthenticationError, match="Too many"):
        stage.broker.add_connection(peer, info("user", CANARY), stage.now)
    stage.broker.add_connection(peer, info("user", CANARY, "tcp://10.0.0.2:1"), stage.now)
    stage.environment.advance(MAX_DELAY)
    stage.broker.add_connection(peer, info("user", CANARY, number=3), stage.now)


@pytest.mark.parametrize("nothing", [None, ""])
def test_who_gives_neither_name_nor_password_guesses_nothing_and_delays_nobody(nothing: str | None) -> None:
    stage = Stage(authenticator=Counting())
    peer = Silent()
    for number in range(ADDRESS_FAILURES + FREE_FAILURES):
        with pytest.raises(AuthenticationError, match="is invalid"):
            stage.broker.add_connection(peer, info(nothing, nothing, number=number), stage.now)
    stage.broker.add_connection(peer, info("user", CANARY), stage.now)
