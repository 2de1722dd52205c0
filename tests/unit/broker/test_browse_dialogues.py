"""Browsing shows a queue and changes nothing (JMS 1.1 §5.9)."""

from __future__ import annotations

import pytest

from spanwire.broker.policy.policy_entry import PolicyEntry, QueuePolicy
from spanwire.broker.queue.browser import MAX_IN_FLIGHT_SHOWN
from spanwire.model.acks import DELIVERED_ACK
from spanwire.model.errors import InvalidDestinationError
from tests.support.dialogue.broker_dialogue import Stage, destination

QUEUE = "queue://Q"


def fingerprint(stage: Stage) -> tuple[object, ...]:
    """All that an outsider can tell of the queue and its store."""
    kept = [str(message.message_id) for message in stage.store.kept(destination(QUEUE))]
    return (stage.view(QUEUE), kept, [str(change) for change in stage.store.log], stage.memory())


def test_a_browser_sees_every_waiting_message_once_and_then_the_end() -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, "1", "2", "3")
    before = fingerprint(stage)
    browser = stage.peer("b").consumes(QUEUE, browser=True)
    assert (browser.takes(), browser.ends) == (["1", "2", "3"], 1)
    browser.acknowledges("3", first="1", count=3)
    browser.leaves()
    assert fingerprint(stage) == before
    assert stage.peer("c").consumes(QUEUE).redelivery_counts() == [("1", 0), ("2", 0), ("3", 0)]


def test_a_browser_that_vanishes_changes_nothing_either() -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, "1", "2")
    before = fingerprint(stage)
    peer = stage.peer("b")
    peer.consumes(QUEUE, browser=True, prefetch=1)
    peer.leaves()
    assert fingerprint(stage) == before


def test_a_browser_has_a_window_and_a_selector() -> None:
    stage = Stage()
    producer = stage.peer("p")
    for number in range(6):
        producer.sends(QUEUE, str(number), properties={"parity": number % 2})
    browser = stage.peer("b").consumes(QUEUE, browser=True, prefetch=2, selector="parity = 0")
    assert (browser.takes(), browser.ends) == (["0", "2"], 0)
    browser.acknowledges("2")
    assert (browser.takes(), browser.ends) == (["4"], 1)


def test_an_empty_queue_is_browsed_to_its_end_at_once() -> None:
    stage = Stage()
    browser = stage.peer("b").consumes(QUEUE, browser=True)
    assert (browser.takes(), browser.ends) == ([], 1)


def test_a_browser_reads_what_is_on_the_disk_page_by_page() -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, *[str(number) for number in range(350)])
    stage.syncs()
    again = stage.restarts()
    before = fingerprint(again)
    browser = again.peer("b").consumes(QUEUE, browser=True, prefetch=500)
    assert [len(read.sequences) for read in again.store.reads] == [100]
    again.settle()
    assert (browser.takes(), browser.ends) == ([str(number) for number in range(350)], 1)
    browser.leaves()
    assert fingerprint(again) == before


def test_a_browser_leaves_out_what_goes_while_it_looks() -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, *[str(number) for number in range(5)])
    stage.syncs()
    again = stage.restarts()
    browser = again.peer("b").consumes(QUEUE, browser=True)
    again.store.remove(destination(QUEUE), 3)
    again.settle()
    assert (browser.takes(), browser.ends) == (["0", "1", "3", "4"], 1)


def test_a_browser_does_not_take_part_in_the_turns_nor_count_as_a_consumer() -> None:
    stage = Stage()
    stage.peer("b").consumes(QUEUE, browser=True)
    assert stage.view(QUEUE).consumers == 0
    listener = stage.peer("c").consumes(QUEUE)
    stage.peer("p").sends(QUEUE, "1", "2")
    assert listener.takes() == ["1", "2"]


def test_a_pulling_browser_gets_one_message_per_pull_and_then_the_end() -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, "1", "2")
    browser = stage.peer("b").consumes(QUEUE, browser=True, prefetch=0)
    for expected in (["1"], ["2"]):
        browser.pulls(-1)
        assert browser.takes() == expected
    browser.pulls(-1)
    assert browser.takes() == []
    assert browser.ends >= 1


@pytest.mark.parametrize("name", ["topic://T", "queue://A,B", "queue://A.>", "temp-topic://ID:b:1:1"])
def test_only_a_single_queue_is_browsed(name: str) -> None:
    stage = Stage()
    peer = stage.peer("b")
    if name.startswith("temp"):
        peer.creates(name)
    with pytest.raises(InvalidDestinationError):
        peer.announces(name, browser=True)
    assert peer.state.consumers == {}
    assert not stage.has("topic://T")


def test_volatile_messages_behind_the_window_are_shown_too() -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, "1")
    stage.syncs()
    again = stage.restarts()
    again.peer("p").sends(QUEUE, "2", persistent=False)
    browser = again.peer("b").consumes(QUEUE, browser=True)
    again.settle()
    assert browser.takes() == ["1", "2"]
    listener = again.peer("c").consumes(QUEUE)
    again.settle()
    assert listener.takes() == ["1", "2"]


def test_what_a_browser_has_from_the_disk_counts_as_memory_until_it_is_acknowledged() -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, *[f"{number:04}" * 1_000 for number in range(60)])
    stage.syncs()
    again = stage.restarts()
    browser = again.peer("b").consumes(QUEUE, browser=True, prefetch=20)
    again.settle()
    first = browser.takes()
    assert len(first) == 20
    assert 20 * 4_000 <= again.memory() <= 60 * 5_000
    browser.acknowledges(first[9], count=10)
    second = browser.takes()
    assert len(second) == 10
    again.settle()
    browser.peer.flushes()
    assert 20 * 4_000 <= again.memory() <= 60 * 5_000
    browser.peer.begins(1)
    browser.acknowledges(first[19], count=10, transaction=1)
    browser.peer.commits(1)
    again.settle()
    browser.peer.leaves()
    assert again.memory() == 0


def test_large_messages_are_read_for_a_browser_a_few_at_a_time() -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, *["a" * 1_000_000 for _ in range(40)])
    stage.syncs()
    again = stage.restarts()
    browser = again.peer("b").consumes(QUEUE, browser=True, prefetch=500)
    pages: list[int] = []
    while browser.ends == 0:
        if again.store.reads:
            pages.append(len(again.store.reads[0].sequences))
            again.store.answer(again.broker, again.now)
        again.runs()
        browser.peer.flushes()
    assert pages[:3] == [4, 4, 4]
    assert sum(pages) == 40
    assert max(pages[3:]) <= 5


def test_a_browser_shows_what_is_out_at_consumers_in_the_order_of_the_queue() -> None:
    stage = Stage()
    producer = stage.peer("p")
    for number in range(8):
        producer.sends(QUEUE, str(number), properties={"n": number})
    even = stage.peer("c").consumes(QUEUE, prefetch=3, selector="n = 0 OR n = 2 OR n = 4")
    first = stage.peer("d").consumes(QUEUE, prefetch=1, selector="n = 5")
    assert (even.takes(), first.takes()) == (["0", "2", "4"], ["5"])
    before = fingerprint(stage)
    browser = stage.peer("b").consumes(QUEUE, browser=True)
    assert (browser.takes(), browser.ends) == ([str(number) for number in range(8)], 1)
    browser.leaves()
    assert fingerprint(stage) == before
    even.acknowledges("0")
    again = stage.peer("b2").consumes(QUEUE, browser=True)
    assert again.takes() == [str(number) for number in range(1, 8)]


def test_a_browser_shows_what_is_out_and_what_waits_on_the_disk_behind_it() -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, *[str(number) for number in range(350)])
    stage.syncs()
    again = stage.restarts()
    listener = again.peer("c").consumes(QUEUE, prefetch=7)
    again.settle()
    assert listener.takes() == [str(number) for number in range(7)]
    before = (again.view(QUEUE), again.memory())
    browser = again.peer("b").consumes(QUEUE, browser=True, prefetch=500)
    again.settle()
    assert (browser.takes(), browser.ends) == ([str(number) for number in range(350)], 1)
    browser.leaves()
    assert (again.view(QUEUE), again.memory()) == before


def test_a_browser_tells_how_often_a_message_was_delivered() -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, "1", "2", "3")
    stage.peer("c").consumes(QUEUE, prefetch=1).leaves()
    stage.peer("d").consumes(QUEUE, prefetch=1)
    browser = stage.peer("b").consumes(QUEUE, browser=True)
    assert browser.redelivery_counts() == [("1", 1), ("2", 0), ("3", 0)]


def test_what_is_acknowledged_or_comes_back_while_a_browser_looks_is_shown_once_or_not_at_all() -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, *[str(number) for number in range(250)])
    keeper = stage.peer("c").consumes(QUEUE, prefetch=200)
    browser = stage.peer("b").consumes(QUEUE, browser=True, prefetch=1)
    assert browser.takes() == ["0"]
    keeper.acknowledges("149")
    assert keeper.out[-1] == "249"
    browser.acknowledges("0")
    keeper.leaves()  # 150 to 249 stand in the line again
    for _ in range(300):
        if browser.ends:
            break
        browser.acknowledges(browser.out[-1])
        stage.settle()
    seen = [int(text) for text in browser.out]
    assert seen == sorted(set(seen))
    assert set(range(150, 250)) <= set(seen)
    assert max(number for number in seen if number < 150) < 110  # one page at most was on its way
    browser.leaves()
    other = stage.peer("d").consumes(QUEUE)
    assert other.takes() == [str(number) for number in range(150, 250)]
    other.acknowledges("249")
    assert stage.memory() == 0


def test_what_was_shown_and_comes_back_into_a_line_of_its_own_is_not_shown_again() -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, *[str(number) for number in range(13)])
    stage.peer("c1").consumes(QUEUE, prefetch=11).leaves()
    browser = stage.peer("b").consumes(QUEUE, browser=True, prefetch=1)
    stage.peer("c2").consumes(QUEUE, prefetch=11).leaves()
    while not browser.ends:
        browser.acknowledges(browser.out[-1])
        stage.settle()
    assert browser.out == [str(number) for number in range(13)]


def test_what_is_dispatched_before_the_browser_is_there_is_shown_also_where_volatile_messages_are_last() -> None:
    stage = Stage()
    producer = stage.peer("p")
    producer.sends(QUEUE, *[str(number) for number in range(400)])
    producer.sends(QUEUE, *[str(number) for number in range(400, 600)], persistent=False)
    browser = stage.peer("b").consumes(QUEUE, browser=True, prefetch=1)
    stage.peer("c").consumes(QUEUE, prefetch=300)
    while not browser.ends:
        browser.acknowledges(browser.out[-1])
        stage.settle()
    assert browser.out == [str(number) for number in range(600)]


def test_a_browser_that_leaves_amid_its_look_lets_go_of_what_was_out() -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, *[str(number) for number in range(20)])
    keeper = stage.peer("c").consumes(QUEUE, prefetch=10)
    browser = stage.peer("b").consumes(QUEUE, browser=True, prefetch=1)
    keeper.acknowledges("9")
    browser.leaves()
    keeper.acknowledges("19", first="10")
    assert stage.memory() == 0
    assert stage.view(QUEUE).dequeued == 20


def test_priorities_are_browsed_in_their_order_with_what_is_out() -> None:
    stage = Stage(PolicyEntry(destination("queue://>"), queue=QueuePolicy(prioritized_messages=True)))
    producer = stage.peer("p")
    for priority in (1, 9, 4, 9, 1, 4):
        producer.sends(QUEUE, f"{priority}", priority=priority)
    stage.peer("c").consumes(QUEUE, prefetch=3)
    browser = stage.peer("b").consumes(QUEUE, browser=True)
    assert browser.takes() == ["9", "9", "4", "4", "1", "1"]


def test_a_browser_that_only_tells_what_it_has_shown_keeps_no_bodies() -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, *[f"{number:04}" * 1_000 for number in range(300)])
    stage.syncs()
    again = stage.restarts()
    browser = again.peer("b").consumes(QUEUE, browser=True, prefetch=5)
    for _ in range(100):
        again.settle()
        assert again.memory() <= 500_000  # a page and a window
        if browser.ends:
            break
        browser.acknowledges(browser.out[-1], ack_type=DELIVERED_ACK)
    assert len(browser.out) == 300
    browser.acknowledges(browser.out[-1], first=browser.out[0], count=60)  # as clients do at the end
    browser.acknowledges_one(browser.out[3])
    browser.peer.begins(1)
    browser.acknowledges(browser.out[-1], first=browser.out[0], count=60, transaction=1)
    browser.peer.commits(1)
    assert again.memory() == 0
    assert len(again.store.kept(destination(QUEUE))) == 300


@pytest.mark.large
def test_a_browser_shows_no_more_of_what_is_out_than_its_limit() -> None:
    stage = Stage()
    producer = stage.peer("p")
    producer.sends(QUEUE, *[str(number) for number in range(MAX_IN_FLIGHT_SHOWN + 5)], persistent=False)
    keeper = stage.peer("c").consumes(QUEUE, prefetch=32_766)
    for _ in range(20):
        keeper.peer.flushes()
        stage.settle()
    assert stage.view(QUEUE).in_flight == MAX_IN_FLIGHT_SHOWN + 5
    browser = stage.peer("b").consumes(QUEUE, browser=True, prefetch=32_766)
    for _ in range(20):
        browser.peer.flushes()
        stage.settle()
    assert (len(browser.takes()), browser.ends) == (MAX_IN_FLIGHT_SHOWN, 1)


@pytest.mark.parametrize("restarted", [False, True])
def test_what_comes_back_into_the_line_before_the_browser_is_there_is_shown_once(restarted: bool) -> None:
    stage = Stage()
    producer = stage.peer("p")
    for number in range(250):
        producer.sends(QUEUE, str(number), properties={"n": number % 2})
    if restarted:
        stage.syncs()
        stage = stage.restarts(clean=True)
    keeper = stage.peer("c").consumes(QUEUE, prefetch=200, selector="n = 1")
    stage.settle()
    assert len(keeper.takes()) == 125
    browser = stage.peer("b").consumes(QUEUE, browser=True, prefetch=1)
    stage.settle()
    keeper.leaves()
    for _ in range(300):
        if browser.ends:
            break
        browser.acknowledges(browser.out[-1])
        stage.settle()
    assert browser.out == [str(number) for number in range(250)]
    browser.leaves()
    other = stage.peer("d").consumes(QUEUE)
    stage.settle()
    other.acknowledges(other.out[-1])
    assert stage.memory() == 0
