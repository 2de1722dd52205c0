"""The user of a link at its own broker, where a directory has to be asked before the link connects."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from spanwire.broker.ports import Principal
from spanwire.broker.security.authentication import User, simple_authenticator
from spanwire.model.environment import Time
from spanwire.model.errors import JmsError, ResourceAllocationError
from spanwire.model.info import ConnectionInfo
from spanwire.model.secret import Secret
from spanwire.network.connector.local_user import local_user
from spanwire.network.demand.bridge_settings import BridgeSettings
from spanwire.transports.awaited_login import ANSWER_DEADLINE_S, awaited_login
from tests.support.dialogue.broker_dialogue import Stage
from tests.support.fake_directory import FakeDirectory
from tests.support.virtual_loop import VirtualLoop

T = TypeVar("T")


class Clock:
    def now(self) -> Time:
        return Time(1.0, 1)


def runs(scene: Coroutine[Any, Any, T]) -> T:
    loop = VirtualLoop(lambda seconds: None)
    try:
        return loop.run_until_complete(scene)
    finally:
        loop.close()


def link(password: str = "anna") -> BridgeSettings:
    return BridgeSettings(name="link", user_name="anna", password=Secret(password))


def asked(stage: Stage, directory: FakeDirectory, settings: BridgeSettings) -> Principal | None:
    async def scene() -> Principal | None:
        task = asyncio.ensure_future(local_user(stage.broker, settings, Clock()))
        await asyncio.sleep(0.1)
        if directory.questions:
            directory.answers()
        return await task

    return runs(scene())


def test_a_link_asks_the_directory_for_its_user() -> None:
    directory = FakeDirectory()
    principal = asked(Stage(authenticator=directory.stack()), directory, link())
    assert principal is not None
    assert (principal.name, principal.groups) == ("anna", frozenset({"staff"}))


def test_a_bridge_with_a_principal_asks_nobody() -> None:
    directory = FakeDirectory()
    stage = Stage(authenticator=directory.stack())

    class Silent:
        def on_completed(self, token: int, error: object) -> None: ...
        def close_with(self, error: object) -> None: ...

    info = ConnectionInfo("ID:bridge", user_name="anna", password="anna", protocol="network")
    state = stage.broker.add_connection(Silent(), info, stage.now, Principal("anna"))
    assert (state.principal.name, directory.asked) == ("anna", [])


def test_a_link_whose_user_is_refused_says_what_to_do() -> None:
    directory = FakeDirectory()
    with pytest.raises(
        JmsError, match=r"refuses its own bridge: User name .anna. or password is invalid. Give the netw"
    ):
        asked(Stage(authenticator=directory.stack()), directory, link("guess"))


def test_a_link_at_a_broker_without_a_directory_logs_in_itself() -> None:
    directory = FakeDirectory()
    authenticator = simple_authenticator([User("anna", Secret("anna"), frozenset())], None)
    assert asked(Stage(authenticator=authenticator), directory, link()) is None


def test_a_login_whose_directory_never_answers_ends() -> None:
    directory = FakeDirectory()
    stage = Stage(authenticator=directory.stack())
    info = ConnectionInfo("", user_name="anna", password="anna")
    with pytest.raises(ResourceAllocationError, match=f"no directory has answered within {ANSWER_DEADLINE_S:g} s"):
        runs(awaited_login(stage.broker.administration, info, Clock()))
    assert directory.questions[0][1].is_dropped
