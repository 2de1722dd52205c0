"""What brokers tell each other for a map: whom a broker asks and for how long, what it keeps, and what it refuses."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Final

import pytest

from spanwire.model.environment import Time
from spanwire.network.reports import network_reports, questions
from spanwire.network.reports.known_brokers import (
    FORGET_S,
    LATE_S,
    MAX_ALL_LINKS,
    MAX_BROKERS,
    MAX_KNOWN_BYTES,
    MAX_LINKS,
    MAX_REPORT_BYTES,
    MAX_TEXT,
    SILENT,
    KnownBrokers,
    Peer,
    Row,
    read_rows,
    silent,
)
from spanwire.network.reports.network_reports import MAX_PEERS, QUESTION_S, WATCH_S, NetworkReports, Rates
from spanwire.network.reports.questions import received, row_of
from spanwire.network.reports.statistics import BrokerReport, ReportedDemand, ReportedLink
from tests.support.control_dialogue import Program, Refused
from tests.support.dialogue.broker_dialogue import Stage
from tests.unit.broker.test_control_dialogues import Lists, Users

VIEW: Final[dict[str, object]] = {
    "name": "to-b", "uri": "tcp://b:1", "remote": "b", "state": "running", "reason": "", "demand": 1, "in_flight": 2,
    "enqueued": 9, "dequeued": 7, "received": 3, "failed": 0, "reconnects": 4, "since_s": 5.0, "duplex": True,
    "accepted": False, "destinations": ("queue://ORDERS",),
}  # fmt: skip


BRIDGES: Final = ("guest", "admin", "topic://ActiveMQ.Advisory.NetworkBridge")
CONTROLS: Final = ("guest", "admin", "queue://ActiveMQ.Spanwire.Control")


def in_a_loop(test: Callable[[], Coroutine[object, object, None]]) -> Callable[[], None]:
    """A test whose body is a coroutine."""

    @wraps(test)
    def run() -> None:
        asyncio.run(test())

    return run


async def turns() -> None:
    """Let the loop do what it can do without waiting."""
    for _ in range(10):
        await asyncio.sleep(0)


def row(name: str, age_s: float = 0.0, **more: object) -> Row:
    return {"name": name, "id": name, "kind": "spanwire", "silence": "", "age_s": age_s, "links": [], **more}


class Hand:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def now(self) -> Time:
        return Time(self.seconds, 0)


class FakeBroker:
    name = "a"
    broker_id = "ID:a"

    def find_destination(self, destination: object) -> None:
        return None


class Watching:
    """The reports of broker a with a link to b; ``answers`` are the rows that b tells."""

    def __init__(self, *answers: Row) -> None:
        self.clock = Hand()
        self.answers = list(answers)
        self.asked: list[tuple[str, int]] = []
        self.told: list[str] = []
        self.peers = [Peer("b", "tcp://b:1")]
        self.reports = NetworkReports(FakeBroker(), lambda: [VIEW], lambda: self.peers, self.clock, self.ask)

    async def ask(self, peer: Peer, watch_s: int, told: str) -> list[Row]:
        self.asked.append((peer.uri, watch_s))
        self.told.append(told)
        return self.answers

    async def look(self) -> list[Row]:
        brokers = (await self.reports.network({}))["brokers"]
        assert isinstance(brokers, list)
        return brokers


@in_a_loop
async def test_a_look_shows_brokers_behind_the_linked_ones() -> None:
    watching = Watching(row("b"), row("c", 1.5))
    brokers = await watching.look()
    watching.reports.stop()
    assert [(one["name"], one["age_s"]) for one in brokers] == [("a", 0.0), ("b", 0.0), ("c", 1.5)]
    assert watching.asked == [("tcp://b:1", WATCH_S - QUESTION_S)]


@in_a_loop
async def test_brokers_that_have_opened_a_link_are_told_unless_a_link_to_them_is_known() -> None:
    watching = Watching()
    watching.reports = NetworkReports(
        FakeBroker(), lambda: [VIEW], lambda: [], watching.clock, watching.ask, guests=lambda: ["b", "tax"]
    )
    [own] = await watching.look()
    watching.reports.stop()
    links = own["links"]
    assert isinstance(links, list)
    assert [(link["remote"], link["state"], link.get("incoming", False)) for link in links] == [
        ("b", "running", False), ("tax", "running", True),
    ]  # fmt: skip
    [read] = read_rows(json.dumps({"brokers": [own]}))
    assert isinstance(read["links"], list) and read["links"][1]["incoming"] is True


@in_a_loop
async def test_nobody_is_asked_when_nobody_looks_and_watches_get_shorter() -> None:
    watching = Watching(row("b"))
    watching.reports.report(0)
    await turns()
    assert watching.asked == []
    watching.reports.report(9)
    await turns()
    watching.reports.stop()
    assert watching.asked == [("tcp://b:1", 4)]


def test_two_brokers_with_slow_answers_watch_each_other_no_longer_than_one_is_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(network_reports, "LOOK_S", 0.0)

    async def both() -> None:
        one, other = Watching(), Watching()
        other.clock = one.clock
        asked_at: list[float] = []

        def asks(watched: Watching) -> Callable[[Peer, int, str], Coroutine[object, object, list[Row]]]:
            async def ask(peer: Peer, watch_s: int, told: str) -> list[Row]:
                asked_at.append(one.clock.seconds)
                one.clock.seconds += QUESTION_S - 1  # login and transit
                watched.reports.report(watch_s)
                await asyncio.sleep(0)
                return []

            return ask

        for watching, watched in ((one, other), (other, one)):
            watching.reports = NetworkReports(
                FakeBroker(), list, lambda: [Peer("b", "tcp://b:1")], one.clock, asks(watched)
            )
        start = one.clock.seconds
        one.reports.report(WATCH_S)
        for _ in range(1_000):
            await asyncio.sleep(0)
        assert start + WATCH_S / 2 < max(asked_at) <= start + WATCH_S
        assert len(asyncio.all_tasks()) == 1  # nobody asks any more

    asyncio.run(both())


@in_a_loop
async def test_a_broker_without_the_plugin_is_not_asked_again_soon() -> None:
    watching = Watching(silent(Peer("b", "tcp://b:1"), SILENT))
    assert [one["silence"] for one in await watching.look()] == ["", SILENT]
    watching.reports.stop()
    await turns()
    await watching.look()
    watching.reports.stop()
    assert len(watching.asked) == 1


@in_a_loop
async def test_a_broker_that_tells_of_one_without_the_plugin_is_asked_again() -> None:
    watching = Watching(row("b"), row("c", silence=SILENT))
    await watching.look()
    watching.reports.stop()
    await turns()
    await watching.look()
    watching.reports.stop()
    assert len(watching.asked) == 2


@in_a_loop
async def test_a_broker_without_the_plugin_stays_on_the_map_while_it_is_not_asked() -> None:
    watching = Watching(silent(Peer("b", "tcp://b:1"), SILENT))
    await watching.look()
    watching.reports.stop()
    await turns()
    watching.clock.seconds += FORGET_S + 1
    brokers = await watching.look()
    watching.reports.stop()
    assert (len(watching.asked), [one["silence"] for one in brokers]) == (1, ["", SILENT])


@in_a_loop
async def test_an_unforeseen_error_of_one_broker_is_told_once_and_ends_no_round() -> None:
    watching = Watching(row("c"))
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    network_reports.logger.addHandler(handler)
    tells = watching.ask

    async def ask(peer: Peer, watch_s: int, told: str) -> list[Row]:
        if peer.name == "bad":
            raise OverflowError("int too large")
        return await tells(peer, watch_s, told)

    watching.peers = [Peer("bad", "tcp://bad:1"), *watching.peers]
    watching.reports = NetworkReports(FakeBroker(), lambda: [], lambda: watching.peers, watching.clock, ask)
    for _ in range(2):
        watching.clock.seconds += 1
        brokers = await watching.look()
        watching.reports.stop()
        await turns()
        assert [(one["name"], one["silence"]) for one in brokers] == [
            ("a", ""), ("bad", "cannot be asked: int too large"), ("c", ""),
        ]  # fmt: skip
    network_reports.logger.removeHandler(handler)
    assert lines == ["broker 'bad' cannot be asked for its links: OverflowError('int too large')"]


def test_a_question_has_one_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_reports, "QUESTION_S", 0.01)

    async def look() -> list[Row]:
        watching = Watching()

        async def ask(peer: Peer, watch_s: int, told: str) -> list[Row]:
            while True:
                await asyncio.sleep(0.001)

        watching.reports = NetworkReports(FakeBroker(), lambda: [], lambda: watching.peers, watching.clock, ask)
        brokers = await watching.look()
        watching.reports.stop()
        return brokers

    assert [one["silence"] for one in asyncio.run(look())] == ["", "does not answer within 0.01 s"]


class Answer:
    """A message of a remote broker."""

    def __init__(self, body: object, size: int = 100, mark: str | None = None) -> None:
        self.body, self.raw, self.correlation_id = body, b"x" * size, mark


class Answering:
    """A consumer that answers without end; each answer takes some time."""

    def __init__(self, answer: Answer, takes_s: float = 0.0) -> None:
        self.answer, self.takes_s, self.count = answer, takes_s, 0

    async def receive(self, timeout: float | None = None) -> Any:
        assert timeout is not None
        if timeout < self.takes_s:
            return None
        self.count += 1
        await asyncio.sleep(self.takes_s)
        return self.answer


def test_s24_answers_to_one_question_are_bounded_in_time_bytes_and_what_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(questions, "PATIENCE_S", 0.02)
    slow, large = Answering(Answer({"brokerName": "b"}), 0.004), Answering(Answer({"x": "y"}, 3 * 1024 * 1024))
    assert len(asyncio.run(received(slow))) <= 5
    assert (asyncio.run(received(large)), large.count) == ([], 3)
    last = Answering(Answer({"clientId": "c", "brokerName": "b", "size": 3, "x": "y" * 99}, mark="last"))
    assert asyncio.run(received(last)) == [{"brokerName": "b", "size": 3, "clientId": "c"}]


@in_a_loop
async def test_s24_a_round_asks_a_limited_number_of_brokers() -> None:
    watching = Watching()
    watching.peers = [Peer(str(number), f"tcp://b:{number}") for number in range(MAX_PEERS + 5)]
    await watching.look()
    watching.reports.stop()
    assert len(watching.asked) == MAX_PEERS


@in_a_loop
async def test_the_report_has_the_links_with_rates_and_no_password() -> None:
    watching = Watching()
    told = read_rows(watching.reports.report(0))
    assert [(one["name"], one["id"]) for one in told] == [("a", "ID:a")]
    links = told[0]["links"]
    assert isinstance(links, list)
    assert links[0] == {
        **{name: float(value) if isinstance(value, int) and not isinstance(value, bool) else value
           for name, value in VIEW.items()},
        "destinations": ["queue://ORDERS"], "incoming": False, "waiting": 0.0, "rate": 0.0, "received_rate": 0.0,
    }  # fmt: skip


def test_rates_are_measured_between_looks() -> None:
    rates = Rates()
    assert rates.rate("x", 10, 0.0) == 0.0
    assert rates.rate("x", 12, 0.5) == 0.0
    assert rates.rate("x", 30, 2.0) == 10.0
    assert rates.rate("x", 30, 2.1) == 10.0
    assert rates.rate("x", 5, 4.0) == 0.0


def test_the_younger_of_two_reports_stays_and_old_ones_are_forgotten() -> None:
    known = KnownBrokers("a")
    known.add([row("b", 3.0, id="older"), row("a")], 100.0)
    known.add([row("b", 1.0, id="younger")], 101.0)
    known.add([row("b", 30.0, id="oldest")], 101.0)
    assert [(one["id"], one["age_s"]) for one in known.rows(101.0)] == [("younger", 1.0)]
    assert known.rows(101.0 + FORGET_S) == []


def test_s24_a_broker_can_tell_of_a_limited_number_of_brokers_and_links() -> None:
    known = KnownBrokers("a")
    known.add([row(f"b{number}") for number in range(MAX_BROKERS + 5)], 1.0)
    assert len(known.rows(1.0)) == MAX_BROKERS
    many = json.dumps(
        {
            "brokers": [{"name": "x" * 999, "links": [{"remote": "n"}] * (MAX_LINKS + 5) + [{}]}]
            + [{"name": "n"}] * 2_000
        }
    )
    told = read_rows(many)
    assert len(told) == MAX_BROKERS
    links = told[0]["links"]
    assert isinstance(links, list)
    assert (len(str(told[0]["name"])), len(links)) == (MAX_TEXT, MAX_LINKS)


def linked(name: str, count: int = MAX_LINKS, text: str = "") -> Row:
    return row(name, links=[{"name": text, "uri": text, "remote": "r"}] * count)


def told_links(known: KnownBrokers) -> dict[str, int]:
    links = {str(one["name"]): one["links"] for one in known.rows(1.0)}
    return {name: len(found) for name, found in links.items() if isinstance(found, list)}


@pytest.mark.large
def test_s24_the_links_and_bytes_of_all_brokers_are_bounded() -> None:
    known = KnownBrokers("a")
    known.add([linked(f"b{number}") for number in range(MAX_BROKERS)], 1.0, "x")
    assert sum(told_links(known).values()) == MAX_ALL_LINKS
    known = KnownBrokers("a")
    known.add([linked(f"b{number}", 100, "x" * MAX_TEXT) for number in range(MAX_BROKERS)], 1.0, "x")
    size = len(json.dumps(known.rows(1.0)))
    assert MAX_KNOWN_BYTES * 0.9 < size <= MAX_KNOWN_BYTES * 1.01


def test_s24_a_broker_that_tells_too_much_pushes_out_neither_linked_brokers_nor_what_another_one_tells() -> None:
    known = KnownBrokers("a")
    known.add([row(f"x{number}") for number in range(MAX_BROKERS + 5)], 1.0, "hostile")
    known.add([row(f"c{number}") for number in range(10)] + [linked("b")], 1.0, "b")
    known.add([row(f"y{number}") for number in range(MAX_BROKERS)], 1.0, "hostile")
    names = told_links(known)
    assert names["b"] == MAX_LINKS
    assert {f"c{number}" for number in range(10)} <= set(names)
    assert len(names) == MAX_BROKERS


def test_what_a_broker_tells_of_itself_goes_before_what_others_tell_of_it() -> None:
    known = KnownBrokers("a")
    known.add([row("b", 1.0, id="own word")], 1.0, "b")
    known.add([row("b", id="forged")], 1.0, "c")
    assert [one["id"] for one in known.rows(1.0)] == ["own word"]
    known.add([row("b", id="later")], 1.1 + LATE_S, "c")
    assert [one["id"] for one in known.rows(1.1 + LATE_S)] == ["later"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"brokers": 1}',
        '{"brokers": [1, {}, {"name": 7}, {"name": ""}]}',
        "[" * 100_000,
        '{"brokers": [{"name": "' + "x" * 5_000_000 + '"}]}',
    ],
    ids=range(7),
)
def test_s24_a_text_of_another_form_is_no_report(text: str) -> None:
    assert read_rows(text) == []


@in_a_loop
async def test_s24_an_answer_beyond_the_limit_is_a_row_that_says_so() -> None:
    class Told:
        properties: Final = {"status": "ok"}
        body = " " * (MAX_REPORT_BYTES + 1)

        def session(self) -> Told:
            return self

        async def request(self, *question: object, timeout: float) -> Told:
            return self

    connection: Any = Told()
    (told,) = await questions._control(connection, Peer("b", "tcp://b:1"), 0, "")
    assert (told["name"], told["silence"]) == ("b", f"tells more than {MAX_REPORT_BYTES} bytes")


def test_values_of_another_type_are_left_out() -> None:
    link = {
        "name": 7,
        "remote": "c",
        "demand": "many",
        "rate": 1e400,
        "failed": 10**400,
        "duplex": 1,
        "destinations": [1, "queue://A"],
        "extra": "x",
    }
    told = read_rows(json.dumps({"brokers": [{"name": "b", "age_s": -5, "links": [{}, link, 3]}]}))
    assert told == [
        row("b", id="", links=[
            {"name": "", "uri": "", "remote": "c", "state": "", "reason": "", "demand": 0.0, "rate": 0.0,
             "failed": float(1 << 62), "duplex": False, "accepted": False, "incoming": False, "destinations": ["queue://A"]},
        ]),
    ]  # fmt: skip


def test_an_activemq_tells_its_links_by_its_consumers() -> None:
    report = BrokerReport("tcp://b:1", "classic", "ID:b")
    report.links = [
        ReportedLink("c", "to-c", demand=[ReportedDemand("ORDERS", 5, 3, 40)]),
        ReportedLink("a", "to-b", incoming=True),
    ]
    told = row_of(report)
    links = told["links"]
    assert isinstance(links, list)
    assert (told["name"], told["kind"]) == ("classic", "activemq")
    assert [(one["remote"], one["incoming"], one["in_flight"], one["dequeued"]) for one in links] == [
        ("c", False, 3.0, 40.0),
        ("a", True, 0.0, 0.0),
    ]


class Fixed:
    def __init__(self) -> None:
        self.seconds: list[int] = []

    def report(self, seconds: int, may_read: Callable[[str], bool] | None = None) -> str:
        self.seconds.append(seconds)
        links = [{"destinations": ["queue://A", "queue://B", "B", "queue://"]}]
        rows = [row("a", links=links)]
        return json.dumps({"brokers": rows if may_read is None else network_reports.readable(rows, may_read)})

    def take(self, content: bytes, teller: str) -> None:
        pass

    def invite(self, name: str, seconds: int) -> None:
        raise AssertionError("nobody invites over this port")


def test_a_broker_answers_the_question_of_another_one() -> None:
    stage = Stage()
    program = Program(stage)
    with pytest.raises(Refused, match=r"^unavailable: this broker does not report its links"):
        program.asks("network")
    reporter = stage.broker.assembly.control.reporter = Fixed()
    assert program.asks("network", seconds=7) == {}
    assert (len(json.loads(program.body)["brokers"]), reporter.seconds) == (1, [7])


@pytest.mark.parametrize(
    ("refused", "destinations", "seconds"),
    [
        ([], ["queue://A", "queue://B", "B", "queue://"], 7),
        ([BRIDGES], ["queue://A", "queue://B", "B", "queue://"], 7),
        ([CONTROLS], ["queue://A", "queue://B", "B", "queue://"], 7),
        ([BRIDGES, CONTROLS], ["queue://A"], 0),
    ],
)
def test_s46_a_user_of_no_link_is_told_readable_destinations_and_has_no_other_broker_asked(
    refused: list[tuple[str, str, str]], destinations: list[str], seconds: int
) -> None:
    stage = Stage(authenticator=Users(), authorizer=Lists(("guest", "read", "queue://B"), *refused))
    reporter = stage.broker.assembly.control.reporter = Fixed()
    program = Program(stage, "guest", "guest")
    program.asks("network", seconds=7)
    (told,) = json.loads(program.body)["brokers"]
    assert (told["links"][0]["destinations"], reporter.seconds) == (destinations, [seconds])


def test_what_crossed_links_is_read_as_whole_numbers_and_a_broker_without_a_ledger_has_none() -> None:
    ledger = [{"remote": "A", "forwarded": 5, "arrived": -1, "in_flight": 1.5, "more": "x"}, {"forwarded": 1}, 7]
    rows = [{"name": "B", "links": [], "ledger": ledger}, {"name": "C", "links": [], "ledger": "none"}]
    told, silent_one = read_rows(json.dumps({"brokers": rows}))
    assert told["ledger"] == [
        {"remote": "A", "forwarded": 5, "arrived": 0, "forwarded_since_start": 0, "arrived_since_start": 0,
         "in_flight": 1}
    ]  # fmt: skip
    assert "ledger" not in silent_one
