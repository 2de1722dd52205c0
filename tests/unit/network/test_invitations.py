"""A broker without a link of its own asks over a duplex link of another one, which reports with its own login."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from spanwire.network.bridge.invitation import MARK, MAX_SECONDS, invitation, invited_seconds
from spanwire.network.demand.bridge_settings import BridgeSettings
from spanwire.network.reports.network_reports import QUESTION_S, WATCH_S, NetworkReports
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.wire_format import PROVIDER_NAME
from tests.support.control_dialogue import Program
from tests.support.dialogue.broker_dialogue import Stage
from tests.support.network_dialogue import Network, Site
from tests.unit.broker.test_control_dialogues import Lists, Users
from tests.unit.network.test_reports import BRIDGES, CONTROLS, FakeBroker, Watching, in_a_loop, row, turns


class Reporter:
    """Takes invitations and reports; the other end of the port that the core knows."""

    def __init__(self) -> None:
        self.invited: list[tuple[str, int]] = []
        self.taken: list[tuple[bytes, str]] = []

    def report(self, seconds: int, may_read: Callable[[str], bool] | None = None) -> str:
        return '{"brokers": []}'

    def take(self, content: bytes, teller: str) -> None:
        self.taken.append((content, teller))

    def invite(self, name: str, seconds: int) -> None:
        self.invited.append((name, seconds))


def invited(
    near: Site, far: Site, network: Network, *known: str, seconds: int = 30
) -> tuple[list[tuple[str, int]], int]:
    """What the opener of the link hears of an invitation, and how often the far broker's turn was ended for it."""
    reporter = near.broker.assembly.control.reporter = Reporter()
    woken: list[None] = []
    far.acceptor.invite(seconds, known, lambda: woken.append(None))
    network.settles()
    return reporter.invited, len(woken)


def test_the_broker_that_has_opened_a_duplex_link_is_invited_over_it() -> None:
    network = Network()
    a, b = network.site("A"), network.site("B")
    link = network.link(a, b, BridgeSettings(duplex=True))
    network.settles()
    assert invited(a, b, network) == ([("brokerB", 30)], 1)
    assert invited(a, b, network, "brokerA") == ([], 0)  # whoever can be asked is
    assert link.running


def test_s24_a_round_invites_a_limited_number_of_brokers() -> None:
    network = Network()
    hub, spokes = network.site("HUB"), [network.site(name) for name in "ABC"]
    for spoke in spokes:
        network.link(spoke, hub, BridgeSettings(duplex=True))
        spoke.broker.assembly.control.reporter = Reporter()
    network.settles()
    hub.acceptor.invite(30, (), lambda: None, most=2)
    network.settles()
    reporters = [spoke.broker.assembly.control.reporter for spoke in spokes]
    assert sum(len(one.invited) for one in reporters if isinstance(one, Reporter)) == 2


def test_nobody_is_invited_over_a_link_of_one_way() -> None:
    network = Network()
    a, b = network.site("A"), network.site("B")
    network.link(a, b)
    network.settles()
    assert invited(a, b, network) == ([], 0)


def test_a_broker_of_another_kind_gets_no_invitation() -> None:
    network = Network()
    a, b = network.site("A"), network.site("B")
    network.link(a, b, BridgeSettings(duplex=True))
    network.settles()
    (bridge,) = b.acceptor.bridges.values()
    assert bridge.remote.wire_format is not None
    assert bridge.remote.wire_format.provider_name == PROVIDER_NAME
    bridge.remote.wire_format = replace(bridge.remote.wire_format, provider_name="ActiveMQ")
    assert invited(a, b, network) == ([], 0)


@pytest.mark.parametrize(
    ("refused", "is_answered"),
    [([], True), ([BRIDGES], True), ([CONTROLS], True), ([BRIDGES, CONTROLS], False)],
)
def test_s46_an_invitation_counts_if_the_user_of_the_connector_has_the_right_of_links(
    refused: list[tuple[str, str, str]], *, is_answered: bool
) -> None:
    network = Network()
    a = network.site("A", authenticator=Users(), authorizer=Lists(*refused))
    b = network.site("B")
    network.link(a, b, BridgeSettings(duplex=True, user_name="guest"))
    network.settles()
    assert invited(a, b, network) == ([("brokerB", 30)] if is_answered else [], 1)


@pytest.mark.parametrize(
    ("token", "seconds"),
    [
        (MARK + b"7", 7),
        (MARK + b"60", 60),
        (MARK + b"99", MAX_SECONDS),
        (MARK + b"0", 0),
        (MARK, 0),
        (MARK + b"-1", 0),
        (MARK + b"1" * 5_000, 0),
        (MARK + "٣".encode(), 0),
        (b"another", 0),
        (b"7", 0),
        (None, 0),
    ],
)
def test_a_token_of_another_form_is_no_invitation(token: bytes | None, seconds: int) -> None:
    assert invited_seconds(wire.ConnectionControl(token=token)) == seconds


def test_an_invitation_is_short() -> None:
    assert invited_seconds(invitation(10**9)) == MAX_SECONDS


@in_a_loop
async def test_a_look_invites_the_brokers_that_cannot_be_asked_and_shows_what_they_tell() -> None:
    watching = Watching(row("b"))
    asked: list[tuple[int, set[str]]] = []
    watching.reports = NetworkReports(
        FakeBroker(), list, lambda: watching.peers, watching.clock, watching.ask,
        invite=lambda seconds, known: asked.append((seconds, set(known))),
    )  # fmt: skip
    told = json.dumps({"brokers": [row("guest"), row("behind", 1.0), row("a")]}).encode()
    watching.reports.take(told, "tcp://10.0.0.9:4711")
    assert [one["name"] for one in await watching.look()] == ["a", "b"]  # nobody watched when it was told
    watching.reports.take(told, "tcp://10.0.0.9:4711")
    watching.reports.take(b"\xff{", "tcp://10.0.0.9:4711")
    brokers = await watching.look()
    watching.reports.stop()
    assert [one["name"] for one in brokers] == ["a", "b", "behind", "guest"]
    assert asked == [(WATCH_S - QUESTION_S, {"b"})]


@in_a_loop
async def test_an_invited_broker_reports_for_so_long_to_that_broker_alone() -> None:
    watching = Watching(row("b"), row("c"))
    watching.reports.report(20)
    await turns()
    watching.reports.stop()
    assert watching.told == [""]  # it was asked, and asks in turn
    watching.reports.invite("b", 10)
    await turns()
    watching.reports.stop()
    assert [one["name"] for one in json.loads(watching.told[-1])["brokers"]] == ["a"]  # b itself has told of b and c
    watching.clock.seconds += 11
    watching.reports.report(20)
    await turns()
    watching.reports.stop()
    assert watching.told[-1] == ""
    watching.reports.invite("stranger", 10)
    await turns()
    watching.reports.stop()
    assert watching.told[-1] == ""  # b is no stranger, and a stranger has no link from here


@pytest.mark.parametrize(
    ("refused", "is_taken"), [([], True), ([BRIDGES], True), ([CONTROLS], True), ([BRIDGES, CONTROLS], False)]
)
def test_s46_only_brokers_and_administrators_report(refused: list[tuple[str, str, str]], *, is_taken: bool) -> None:
    stage = Stage(authenticator=Users(), authorizer=Lists(*refused))
    reporter = stage.broker.assembly.control.reporter = Reporter()
    Program(stage, "guest", "guest").asks("network", body="told")
    assert [content for content, _ in reporter.taken] == ([b"told"] if is_taken else [])
