"""Logins that wait for a directory: flags of the other modules, answers, limits and ends."""

from __future__ import annotations

import pytest

from spanwire.broker.ports import Principal
from spanwire.broker.security.authentication import (
    OPTIONAL,
    REQUIRED,
    REQUISITE,
    SUFFICIENT,
    DirectoryModule,
    DualLogin,
    GuestModule,
    LoginModule,
    LoginStack,
    StackEntry,
    User,
    UsersModule,
    simple_authenticator,
)
from spanwire.broker.security.login_throttle import FREE_FAILURES
from spanwire.broker.security.waiting_logins import MAX_WAITING
from spanwire.model.errors import AuthenticationError, ResourceAllocationError
from spanwire.model.info import ConnectionInfo
from spanwire.model.secret import Secret
from tests.support.dialogue.broker_dialogue import Stage
from tests.support.fake_directory import FakeDirectory


class Observer:
    """Counts the decisions. Duck-typed to `LoginObserver`."""

    def __init__(self) -> None:
        self.decisions = 0

    def on_login_decided(self) -> None:
        self.decisions += 1


def info(name: str | None = "anna", password: str | None = "anna", host: str = "10.0.0.1") -> ConnectionInfo:
    return ConnectionInfo("", user_name=name, password=password, remote_address=f"tcp://{host}:1", protocol="test")


def begins(stage: Stage, asker: object, login: ConnectionInfo, observer: Observer | None = None) -> bool:
    return stage.broker.administration.must_wait(asker, login, observer or Observer(), stage.now)


def outcome(stage: Stage, asker: object, login: ConnectionInfo) -> str:
    try:
        principal = stage.broker.administration.log_in(login, stage.now, asker=asker)
    except (AuthenticationError, ResourceAllocationError) as error:
        return str(error)
    return f"{principal.name}:{' '.join(sorted(principal.groups))}"


def test_a_login_waits_until_the_directory_has_answered() -> None:
    directory, observer = FakeDirectory(), Observer()
    stage = Stage(authenticator=directory.stack())
    assert begins(stage, "c1", info(), observer)
    assert begins(stage, "c1", info(), observer), "the question is asked once"
    assert (directory.asked, observer.decisions) == (["anna"], 0)
    directory.answers()
    assert observer.decisions == 1
    assert not begins(stage, "c1", info(), observer)
    assert outcome(stage, "c1", info()) == "anna:staff"


def test_a_directory_that_refuses_counts_as_a_failed_login() -> None:
    directory = FakeDirectory()
    stage = Stage(authenticator=directory.stack())
    for _ in range(FREE_FAILURES):
        assert begins(stage, "c", info(password="guess"))
        directory.answers()
        assert outcome(stage, "c", info(password="guess")) == "User name [anna] or password is invalid."
    assert not begins(stage, "c", info()), "a name that must wait is not asked about"
    assert "Too many failed logins" in outcome(stage, "c", info())
    assert len(directory.asked) == FREE_FAILURES


def test_a_directory_that_does_not_answer_is_no_failure_of_the_user() -> None:
    directory = FakeDirectory()
    stage = Stage(authenticator=directory.stack())
    for _ in range(3 * FREE_FAILURES):
        assert begins(stage, "c", info())
        directory.fails()
        assert outcome(stage, "c", info()) == "The login of [anna] cannot be checked now: no answer of a directory."
    assert begins(stage, "c", info())
    directory.answers()
    assert outcome(stage, "c", info()) == "anna:staff"


@pytest.mark.parametrize(("name", "password"), [("anna", ""), ("anna", None), ("", "x"), (None, "x"), (None, None)])
def test_s31_cve_2014_3612_an_empty_name_or_password_never_reaches_a_directory(
    name: str | None, password: str | None
) -> None:
    directory = FakeDirectory()
    stage = Stage(authenticator=directory.stack())
    assert not begins(stage, "c", info(name, password))
    assert "is invalid" in outcome(stage, "c", info(name, password))
    assert directory.asked == []


def test_too_many_waiting_logins_are_refused_and_the_rest_goes_on() -> None:
    directory = FakeDirectory()
    stage = Stage(authenticator=directory.stack())
    for number in range(MAX_WAITING):
        assert begins(stage, number, info())
    assert not begins(stage, "more", info())
    assert "cannot wait for the answer of a directory" in outcome(stage, "more", info())
    directory.answers()
    assert outcome(stage, 0, info()) == "anna:staff"
    assert begins(stage, "more", info())


def test_a_login_that_is_forgotten_leaves_nothing_behind() -> None:
    directory, observer = FakeDirectory(), Observer()
    stage = Stage(authenticator=directory.stack())
    assert begins(stage, "c", info(), observer)
    (_, asker) = directory.questions[0]
    stage.broker.administration.forget_login("c")
    assert asker.is_dropped
    directory.answers()
    assert observer.decisions == 0
    assert begins(stage, "c", info()), "a new login is a new question"
    assert len(directory.asked) == 2


USERS = UsersModule([User("anna", Secret("local"), frozenset({"local"}))])
GUEST = GuestModule(Principal("guest", frozenset({"guests"})), without_credentials=False)


@pytest.mark.parametrize(
    ("flags", "right", "wrong", "local", "gone"),
    [
        (["directory required"], "anna:staff", "invalid", "invalid", "no answer"),
        (["directory sufficient", "users required"], "anna:staff", "invalid", "anna:local", "no answer"),
        (["users sufficient", "directory required"], "anna:staff", "invalid", "anna:local", "no answer"),
        (["directory optional", "guest required"], "anna:guests staff", "guest:guests", "guest:guests", "guest:guests"),
        (["directory requisite", "guest required"], "anna:guests staff", "invalid", "invalid", "no answer"),
        (["directory required", "guest sufficient"], "anna:guests staff", "invalid", "invalid", "no answer"),
        (["directory sufficient", "guest sufficient"], "anna:staff", "guest:guests", "guest:guests", "guest:guests"),
        (["directory required", "directory required"], "anna:staff", "invalid", "invalid", "no answer"),
        (["users required", "directory required"], "invalid", "invalid", "invalid", "no answer"),
    ],
)
def test_flags_of_jaas_hold_for_directories(flags: list[str], right: str, wrong: str, local: str, gone: str) -> None:
    directory = FakeDirectory()
    modules: dict[str, LoginModule] = {"directory": DirectoryModule(directory), "users": USERS, "guest": GUEST}
    names = {"required": REQUIRED, "requisite": REQUISITE, "sufficient": SUFFICIENT, "optional": OPTIONAL}
    entries = [StackEntry(names[flag], modules[module]) for module, flag in (text.split() for text in flags)]
    for password, expected, answer in (
        ("anna", right, directory.answers),
        ("guess", wrong, directory.answers),
        ("local", local, directory.answers),
        ("anna", gone, directory.fails),
    ):
        stage = Stage(authenticator=LoginStack(entries))
        _ = begins(stage, "c", info(password=password))
        while directory.questions:
            answer()
        assert expected in outcome(stage, "c", info(password=password)), (flags, password)


def test_other_modules_alone_never_wait() -> None:
    directory = FakeDirectory()
    dual = DualLogin(simple_authenticator([User("anna", Secret("anna"), frozenset())], None), directory.stack())
    stage = Stage(authenticator=dual)
    assert not begins(stage, "c", info())
    inside = ConnectionInfo("", user_name="anna", password="anna", encrypted=True)
    assert begins(stage, "d", inside)
    directory.answers()
    assert outcome(stage, "d", inside) == "anna:staff"
