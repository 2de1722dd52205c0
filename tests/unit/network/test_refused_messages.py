"""Messages that the remote broker refuses: tried again for a while, then dead letters; the link goes on."""

from __future__ import annotations

import pytest

from spanwire.broker.ports import WRITE
from spanwire.network.bridge.bridge_states import State
from spanwire.network.bridge.forward_retries import FIRST_PAUSE, MAX_TRIES, NO_ROOM, pause_after
from spanwire.network.demand.bridge_settings import BridgeSettings
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.schema import Throwable
from tests.support.network_dialogue import Network
from tests.support.recording_authorizer import RecordingAuthorizer
from tests.unit.network.test_rogue_remotes import Q, Remote

SECURITY = "java.lang.SecurityException"


class Refusing(Remote):
    """A remote broker with a consumer of the queue, which answers as the test says."""

    def __init__(self, prefetch_size: int = 1000) -> None:
        super().__init__(BridgeSettings(tells_failures=True, prefetch_size=prefetch_size))
        self.runs()
        self.advises(self.consumer())
        self.client = self.site.client()

    def sends(self, *texts: str) -> list[wire.BaseCommand]:
        """Persistent messages come to the queue here; gives what is forwarded of them."""
        for text in texts:
            self.client.sends(Q, text)
        self.network.settles()
        self.listens()
        return self.asked()

    def refuses(self, command: wire.BaseCommand, kind: str = SECURITY) -> None:
        self.says(wire.ExceptionResponse(correlation_id=command.command_id, exception=Throwable(kind, "not\nyou")))

    def after(self, seconds: float) -> list[wire.BaseCommand]:
        """What is sent once that time has gone."""
        self.network.environment.advance(seconds)
        self.bridge.handle_timeout(self.network.now)
        self.says(wire.KeepAliveInfo())
        return self.asked()

    @property
    def dead(self) -> list[str]:
        inbox = self.site.client().consumes("queue://ActiveMQ.DLQ")
        self.network.settles()
        return inbox.texts


def test_a_refused_message_ends_no_link_and_holds_up_no_other(caplog: pytest.LogCaptureFixture) -> None:
    remote = Refusing()
    first, second = remote.sends("one", "two")
    remote.refuses(first)
    remote.says(wire.Response(second.command_id))
    (third,) = remote.sends("three")
    remote.says(wire.Response(third.command_id))
    assert remote.bridge.state is State.RUNNING
    assert (remote.bridge.in_flight, remote.bridge.statistics().failed) == (1, 1)
    lines = [record.getMessage() for record in caplog.records if "refused message" in record.getMessage()]
    assert len(lines) == 1 and lines[0].endswith("which is tried again: java.lang.SecurityException: not?you")


def test_a_message_that_is_taken_at_last_is_acknowledged_and_counts_as_sent_once() -> None:
    remote = Refusing()
    (first,) = remote.sends("one")
    remote.refuses(first)
    assert remote.after(FIRST_PAUSE - 0.01) == []
    (again,) = remote.after(0.02)
    remote.says(wire.Response(again.command_id))
    remote.network.settles()
    counts = remote.bridge.statistics()
    assert (counts.sent, counts.answered, counts.failed) == (1, 1, 1)
    assert remote.site.queue("Q") == (1, 1, 0)
    assert remote.bridge.next_timeout() is not None and remote.after(60.0) == []


def test_a_message_that_is_refused_every_time_becomes_a_dead_letter_with_its_cause_and_the_link_lives() -> None:
    remote = Refusing()
    (sent,) = remote.sends("one")
    began = remote.network.now.monotonic
    for tries in range(1, MAX_TRIES):
        remote.refuses(sent)
        due = remote.bridge.next_timeout()
        assert due is not None and due <= remote.network.now.monotonic + pause_after(tries)
        (sent,) = remote.after(pause_after(tries))
    assert remote.network.now.monotonic - began == pytest.approx(31.0)
    remote.refuses(sent)
    remote.network.settles()
    inbox = remote.site.client().consumes("queue://ActiveMQ.DLQ")
    remote.network.settles()
    assert inbox.texts == ["one"]
    view = remote.site.formats.view(inbox.received[0].message)
    assert "refused 6 times: java.lang.SecurityException: not" in str(view.properties["dlqDeliveryFailureCause"][1])
    assert remote.bridge.state is State.RUNNING
    counts = remote.bridge.statistics()
    assert (counts.sent, counts.answered, counts.failed, remote.bridge.in_flight) == (1, 0, 1, 0)
    assert remote.site.queue("Q")[2] == 0


def test_a_message_for_which_there_is_no_room_is_tried_for_ever() -> None:
    remote = Refusing()
    (sent,) = remote.sends("one")
    for _ in range(3 * MAX_TRIES):
        remote.refuses(sent, NO_ROOM)
        (sent,) = remote.after(pause_after(MAX_TRIES - 1))
    remote.says(wire.Response(sent.command_id))
    remote.network.settles()
    assert remote.site.queue("Q") == (1, 1, 0)
    assert remote.dead == []


def test_a_refused_message_does_not_fill_the_window_with_those_behind_it() -> None:
    remote = Refusing(prefetch_size=3)
    (first,) = remote.sends("one")
    remote.refuses(first)
    for number in range(10):
        (sent,) = remote.sends(f"m{number}")
        remote.says(wire.Response(sent.command_id))
    assert remote.site.queue("Q") == (11, 10, 1)
    (again,) = remote.after(FIRST_PAUSE)
    remote.says(wire.Response(again.command_id))
    (sent,) = remote.sends("last")
    remote.says(wire.Response(sent.command_id))
    assert remote.site.queue("Q") == (12, 12, 0)
    assert remote.bridge.statistics().answered == 12


def test_what_waits_to_be_sent_again_is_back_in_line_when_the_link_breaks() -> None:
    remote = Refusing()
    first, second = remote.sends("one", "two")
    remote.refuses(first)
    remote.says(wire.Response(second.command_id))
    remote.bridge.receive_eof(remote.network.now)
    assert remote.bridge.next_timeout() is None
    inbox = remote.client.consumes(Q)
    remote.network.settles()
    assert inbox.texts == ["one"]


def test_the_log_names_ten_refused_messages_and_says_that_there_are_more(caplog: pytest.LogCaptureFixture) -> None:
    remote = Refusing()
    for command in remote.sends(*[f"m{number}" for number in range(30)]):
        remote.refuses(command)
    lines = [record.getMessage() for record in caplog.records if "refused message" in record.getMessage()]
    assert len(lines) == 10
    assert lines[-1].endswith("; others are not reported")


def test_the_accepting_end_of_a_duplex_link_tries_again_as_well() -> None:
    network = Network()
    rights = RecordingAuthorizer(("anonymous", WRITE, "queue://BACK"))
    a, b = network.site("A", authorizer=rights), network.site("B")
    link = network.link(a, b, BridgeSettings(name="twin", duplex=True))
    inbox = a.client().consumes("queue://BACK")
    network.settles()
    b.client().sends("queue://BACK", "one")
    b.client().sends("queue://BACK", "two")
    network.settles()
    (reverse,) = b.acceptor.bridges.values()
    assert (link.running, inbox.texts, reverse.statistics().failed, reverse.forwarder.in_flight) == (True, [], 2, 2)
    rights.refused.clear()
    assert link.peer is not None
    due = link.peer.next_timeout()
    assert due is not None and due <= network.now.monotonic + FIRST_PAUSE
    network.environment.advance(FIRST_PAUSE)
    link.peer.handle_timeout(network.now)
    network.settles()
    assert inbox.texts == ["one", "two"]
    assert reverse.forwarder.in_flight == 0


def test_what_was_refused_is_forgotten_with_its_link() -> None:
    remote = Refusing()
    (first,) = remote.sends("one")
    remote.refuses(first)
    refused = remote.bridge.forwarder
    assert refused is not None
    messages = refused._retries
    assert len(messages.messages) == 1 and messages.next_timeout() is not None
    messages.clear()
    assert messages.messages == {} and messages.next_timeout() is None
