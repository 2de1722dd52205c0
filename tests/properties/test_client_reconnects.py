"""A client whose broker comes and goes at any moment: every waiting send is answered once, and told to each broker."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.client.protocol.response_correlator import Request
from spanwire.protocols.openwire.codec import _marshallers as wire
from tests.support.client_dialogue import PlayedBroker

pytestmark = pytest.mark.hypothesis

STEPS = st.lists(
    st.sampled_from(["send", "answer one", "answer all", "break", "return", "consume", "leave"]), max_size=40
)


class World:
    """A client under failover, a broker that answers when told to, and what both must agree on."""

    def __init__(self) -> None:
        self.broker = PlayedBroker("failover:(tcp://a:1,tcp://b:2)?randomize=false")
        self.is_up = True
        self.unanswered: list[wire.Message] = []
        self.requests: list[Request] = []
        self.consumers = 0
        self.broker.client.failover.begin(True, self.broker.now.monotonic)
        self.broker.client.failover.next_address()
        self.broker.lets_in()
        self.session = self.broker.session()
        self.producer = self.broker.producer(self.session)

    def hears(self) -> None:
        """Take in what the client says; announcements are answered at once."""
        for command in self.broker.receives():
            if isinstance(command, wire.Message):
                self.unanswered.append(command)
            elif isinstance(command, wire.BaseCommand) and command.response_required:
                self.broker.answers(command)

    def send(self) -> None:
        request = self.broker.send(self.producer, str(len(self.requests)))
        assert request is not None
        self.requests.append(request)
        self.hears()

    def answer(self, count: int) -> None:
        for message in self.unanswered[:count]:
            self.broker.answers(message)
        del self.unanswered[:count]

    def breaks(self) -> None:
        if self.is_up:
            self.unanswered.clear()
            assert self.broker.goes()
            self.is_up = False

    def returns(self) -> None:
        if self.is_up:
            return
        self.is_up = True
        self.broker.client.failover.next_address()
        told = self.broker.lets_in()
        consumers = [command for command in told if isinstance(command, wire.ConsumerInfo)]
        assert len(consumers) == len(self.session.consumers)
        for command in told:
            if isinstance(command, wire.Message):
                self.unanswered.append(command)
            elif isinstance(command, wire.BaseCommand) and command.response_required:
                self.broker.answers(command)
        waiting = [request.number for request in self.requests if not request.done]
        assert [message.command_id for message in self.unanswered] == waiting

    def does(self, step: str) -> None:
        if step == "send":
            self.send()
        elif step == "answer one" and self.is_up:
            self.answer(1)
        elif step == "answer all" and self.is_up:
            self.answer(len(self.unanswered))
        elif step == "break":
            self.breaks()
        elif step == "return":
            self.returns()
        elif step == "consume" and self.is_up:
            self.broker.consumer(self.session)
        elif step == "leave" and self.session.consumers:
            self.session.close_consumer(next(iter(self.session.consumers.values())))
            self.hears()


@given(STEPS)
def test_every_send_is_answered_once_and_no_broker_misses_one(steps: list[str]) -> None:
    world = World()
    for step in steps:
        world.does(step)
    world.returns()
    world.answer(len(world.unanswered))
    assert all(request.done and request.error is None for request in world.requests)
    completed = [request for request in world.broker.client.take_completed() if request in world.requests]
    assert completed == sorted(set(world.requests), key=lambda request: request.number)
    assert world.broker.client.correlator.requests == {}
