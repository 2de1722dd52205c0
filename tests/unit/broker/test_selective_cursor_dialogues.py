"""Cursors with a selector on a queue: what matches is held, once and in order, and others get the rest."""

from __future__ import annotations

import pytest

from spanwire.broker.exactly_once.cursor import Cursor, decode_cursor
from spanwire.broker.exactly_once.reservations.reserved_messages import MAX_RESERVED, MAX_RUNS, ReservedMessages
from spanwire.broker.exactly_once.reservations.search import READ_MESSAGES, SEARCH_SECONDS, Search
from spanwire.broker.metadata import MAX_VALUE_BYTES
from spanwire.broker.policy.policy_entry import PolicyEntry, QueuePolicy
from spanwire.broker.queue.page import MAX_PAGED_OUT_MESSAGES, SLICE_MESSAGES
from spanwire.broker.queue.queue import Queue
from spanwire.model.destination import parse_destination
from spanwire.selector.parser import MAX_TEXT_BYTES
from tests.support.control_dialogue import Program, Refused, again
from tests.support.dialogue.broker_dialogue import Stage

Q = "queue://Q"
EU = "region = 'EU'"


def queue_of(stage: Stage) -> Queue:
    found = stage.broker.find_destination(parse_destination(Q))
    assert isinstance(found, Queue)
    return found


def search_of(stage: Stage) -> Search:
    search = stage.broker.assembly.cursors.table.all()[0].search
    assert search is not None
    return search


def sends(stage: Stage, first: int, end: int, *, every: int = 2, persistent: bool = True) -> None:
    """Each message with a number that ``every`` divides is for the cursor."""
    producer = stage.peer(f"p{first}")
    for number in range(first, end):
        region = "US" if number % every else "EU"
        producer.sends(Q, f"m{number}", properties={"region": region}, persistent=persistent)
    producer.leaves()
    stage.settle()


def opens(program: Program, name: str = "c", selector: str = EU, run: str = "r1", **more: object) -> dict[str, object]:
    return program.asks("open", cursor=name, queue="Q", run=run, selector=selector, **more)


def filled(count: int, *policies: PolicyEntry, every: int = 2) -> tuple[Stage, Program]:
    stage = Stage(*policies)
    sends(stage, 0, count, every=every)
    program = Program(stage)
    assert opens(program) == {"epoch": 1, "from": 0, "to": 0, "selector": EU}
    return stage, program


def words(*numbers: int) -> list[str]:
    return [f"m{number}" for number in numbers]


def rest_of(stage: Stage, name: str = "rest") -> list[str]:
    """What another consumer gets, and acknowledges."""
    listener = stage.peer(name).consumes(Q, prefetch=30_000)
    whole: list[str] = []
    stage.settle()
    while taken := listener.takes():
        listener.acknowledges(taken[-1], count=len(taken))
        whole += taken
        stage.settle()
    listener.peer.leaves()
    stage.settle()
    return whole


def test_a_cursor_holds_what_matches_and_another_consumer_gets_the_rest() -> None:
    stage, program = filled(8)
    assert program.reserves(10) == (0, 4)
    assert program.reads(0, 4) == words(0, 2, 4, 6)
    assert stage.view(Q).in_flight == 4
    assert rest_of(stage) == words(1, 3, 5, 7)
    assert program.asks("acknowledge", cursor="c", epoch=1, to=4) == {"from": 4, "to": 4}
    assert stage.view(Q).pending == 0
    assert stage.store.kept(parse_destination(Q)) == []


def test_messages_on_the_disk_are_read_and_stay_there() -> None:
    stage, _ = filled(300, every=3)
    stage = stage.restarts()
    program = Program(stage, "again")
    opens(program, run="r2")
    assert program.asks("reserve", cursor="c", epoch=2, messages=60)["to"] == 60
    assert program.asks("reserve", cursor="c", epoch=2, messages=1000) == {"from": 0, "to": 100, "waiting": 0}
    assert program.reads(0, 100, epoch=2) == words(*range(0, 300, 3))
    assert stage.memory() == 0
    assert queue_of(stage).pending.lists[0].loaded == 0
    assert rest_of(stage) == [f"m{number}" for number in range(300) if number % 3]


def test_through_a_crash_at_any_write_each_message_is_held_or_waits_once() -> None:
    stage, program = filled(8)
    program.reserves(2)
    for step in (
        {"action": "reserve", "messages": 9},
        {"action": "acknowledge", "to": 1},
        {"action": "reserve", "messages": 3, "acknowledge": 2},
        {"action": "release"},
    ):
        program.begins_to_ask(cursor="c", epoch=1, **step)
        stage.runs()
        for position in range(stage.store.synced, stage.store.position() + 1):
            after = stage.restarts(position=position)
            back = again(program, after)
            row = back.cursors()[0]
            first, end = row["from"], row["to"]
            assert isinstance(first, int)
            assert isinstance(end, int)
            opens(back, run="r2")
            epoch = back.cursors()[0]["epoch"]
            assert isinstance(epoch, int)
            held = back.reads(first, end, epoch=epoch)
            found = back.asks("reserve", cursor="c", epoch=epoch, messages=9)
            assert (found["from"], found["waiting"]) == (first, 0)
            whole = back.reads(first, int(str(found["to"])), epoch=epoch)
            assert whole[: len(held)] == held
            gone = 8 - len(after.store.kept(parse_destination(Q)))
            assert whole == words(0, 2, 4, 6)[gone:]
            assert rest_of(after) == words(1, 3, 5, 7)
        stage.settle()
        stage.syncs()
        program.hears()


def test_what_no_answer_told_of_waits_again_after_a_crash() -> None:
    stage, program = filled(6)
    program.begins_to_ask("reserve", cursor="c", epoch=1, messages=9)
    stage.runs()
    assert program.hears() is None
    after = stage.restarts()
    assert rest_of(after) == words(*range(6))


def test_new_messages_are_found_by_the_next_request() -> None:
    stage, program = filled(2)
    assert program.reserves(9) == (0, 1)
    sends(stage, 2, 5)
    assert program.reserves(9) == (0, 3)
    assert program.reads(0, 3) == words(0, 2, 4)


def test_each_message_is_looked_at_once() -> None:
    stage, program = filled(1000, every=10)
    for count in range(10, 110, 10):
        program.reserves(count)
    search = search_of(stage)
    assert search.looks <= 1000
    program.reserves(200)
    program.reserves(200)
    assert search.looks == 1000
    sends(stage, 1000, 1010, every=10)
    program.reserves(200)
    assert search.looks == 1010


def test_what_returns_is_looked_at_again_and_the_rest_is_not() -> None:
    stage, program = filled(1, every=1)
    program.reserves(9)
    sends(stage, 1, 700, every=5)
    listener = stage.peer("other").consumes(Q, prefetch=20)
    stage.settle()
    assert len(listener.takes()) == 20
    assert program.reserves(1000) == (0, 1 + 135)
    search = search_of(stage)
    looks = search.looks
    listener.peer.leaves()
    stage.settle()
    assert program.reserves(1000) == (0, 1 + 139)
    assert program.reads(136, 140) == words(5, 10, 15, 20)
    assert search.looks - looks <= 520
    assert rest_of(stage) == [f"m{number}" for number in range(1, 700) if number % 5]


def test_what_returns_to_a_long_line_on_the_disk_is_found_without_a_second_look_at_the_line() -> None:
    count = 2 * MAX_PAGED_OUT_MESSAGES + 100
    stage = Stage()
    stage.peer("p").sends(Q, *["x"] * count)
    stage.peer("p2").sends(Q, "m", properties={"region": "EU"})
    stage.settle()
    stage = stage.restarts(clean=True)
    program = Program(stage)
    opens(program)
    listener = stage.peer("other").consumes(Q, prefetch=5)
    stage.settle()
    assert program.reserves(9) == (0, 1)
    search = search_of(stage)
    looks = search.looks
    listener.peer.leaves()
    stage.settle()
    assert program.reserves(9) == (0, 1)
    assert search.looks - looks < count // 2
    program.asks("release", cursor="c", epoch=1)
    assert queue_of(stage).waiting() == count + 1


@pytest.mark.parametrize("restarts", [False, True])
def test_a_search_takes_slices_and_other_requests_go_on(restarts: bool) -> None:
    stage, program = filled(2000, every=1000)
    if restarts:
        stage = stage.restarts()
        program = again(program, stage)
    program.begins_to_ask("reserve", cursor="c", epoch=1, messages=9)
    search = search_of(stage)
    turns = 0
    while search.is_under_way:
        before = search.looks
        stage.runs()
        if stage.store.reads:
            stage.store.answer(stage.broker, stage.now)
        assert search.looks - before <= SLICE_MESSAGES + READ_MESSAGES
        turns += 1
        if turns == 5:
            other = Program(stage, "other")
            stage.peer("p9").sends("queue://ELSE", "quick")
            assert stage.peer("c9").consumes("queue://ELSE").takes() == ["quick"]
            other.begins_to_ask("cursors")
            stage.syncs()
            assert other.hears() == {}
            assert search.is_under_way
    assert turns >= 2000 // (SLICE_MESSAGES + READ_MESSAGES)
    stage.settle()
    stage.syncs()
    assert program.hears() == {"from": 0, "to": 2, "waiting": 0}


def test_a_long_search_is_answered_in_time_and_the_next_request_goes_on() -> None:
    stage, program = filled(1000, every=999)
    program.begins_to_ask("reserve", cursor="c", epoch=1, messages=9)
    for _ in range(3):
        stage.runs()
    stage.waits(SEARCH_SECONDS)
    stage.syncs()
    found = program.hears()
    assert found is not None
    assert (found["from"], found["to"]) == (0, 1)
    waiting = found["waiting"]
    assert isinstance(waiting, int)
    assert 0 < waiting < 999
    assert program.asks("reserve", cursor="c", epoch=1, messages=9) == {"from": 0, "to": 2, "waiting": 0}


def test_a_search_whose_time_ends_before_its_first_turn_finds_something() -> None:
    stage, program = filled(3, every=1)
    program.begins_to_ask("reserve", cursor="c", epoch=1, messages=9)
    stage.waits(2 * SEARCH_SECONDS)
    stage.settle()
    stage.syncs()
    assert program.hears() == {"from": 0, "to": 3, "waiting": 0}


def test_a_search_whose_reads_are_all_late_goes_on_with_each_request() -> None:
    stage, program = filled(3 * READ_MESSAGES, every=1)
    stage = stage.restarts(clean=True)
    program = again(program, stage)
    ends = [0]
    while ends[-1] < 3 * READ_MESSAGES and len(ends) < 12:
        program.begins_to_ask("reserve", cursor="c", epoch=1, messages=9000)
        search = search_of(stage)
        while search.is_under_way:
            stage.runs()
            if stage.store.reads:
                stage.waits(2 * SEARCH_SECONDS)
                stage.store.answer(stage.broker, stage.now)
        stage.syncs()
        found = program.hears()
        assert found is not None
        ends.append(int(str(found["to"])))
    assert ends[-1] == 3 * READ_MESSAGES
    assert len(set(ends)) == len(ends)


def test_a_repeated_request_has_the_first_one_answered_and_finds_the_rest() -> None:
    stage, program = filled(1000, every=2)
    program.begins_to_ask("reserve", cursor="c", epoch=1, messages=900)
    stage.runs()
    other = Program(stage, "other")
    other.begins_to_ask("reserve", cursor="c", epoch=1, messages=900)
    stage.settle()
    stage.syncs()
    first, second = program.hears(), other.hears()
    assert first is not None
    assert second == {"from": 0, "to": 500, "waiting": 0}
    assert 0 < int(str(first["to"])) < 500
    assert program.reads(0, 500) == words(*range(0, 1000, 2))


@pytest.mark.parametrize("action", ["release", "open"])
def test_a_search_ends_with_its_epoch(action: str) -> None:
    stage, program = filled(1000, every=2)
    program.begins_to_ask("reserve", cursor="c", epoch=1, messages=900)
    stage.runs()
    other = Program(stage, "other")
    if action == "release":
        other.begins_to_ask("release", cursor="c", epoch=1)
    else:
        other.begins_to_ask("open", cursor="c", queue="Q", run="r2", selector=EU)
    stage.settle()
    stage.syncs()
    first, second = program.hears(), other.hears()
    assert first is not None
    assert second is not None
    held = int(str(first["to"]))
    assert 0 < held < 500
    if action == "release":
        assert second == {"epoch": 2, "released": held}
        assert rest_of(stage) == words(*range(1000))
    else:
        assert second == {"epoch": 2, "from": 0, "to": held, "selector": EU}
        with pytest.raises(Refused, match="fenced"):
            program.asks("reserve", cursor="c", epoch=1, messages=9)
        assert program.asks("reserve", cursor="c", epoch=2, messages=900)["to"] == 500


@pytest.mark.parametrize("action", ["open", "acknowledge"])
def test_an_answer_amid_a_search_tells_only_of_what_a_crash_leaves(action: str) -> None:
    stage, program = filled(1000, every=2)
    program.begins_to_ask("reserve", cursor="c", epoch=1, messages=900)
    stage.runs()
    other = Program(stage, "other")
    if action == "open":
        other.begins_to_ask("open", cursor="c", queue="Q", run="r1", selector=EU)
    else:
        other.begins_to_ask("acknowledge", cursor="c", epoch=1, to=0)
    stage.syncs()
    answer = other.hears()
    assert answer is not None
    assert 0 < int(str(answer["to"])) < 500
    assert again(other, stage.restarts()).cursors()[0]["to"] == answer["to"]


def test_what_is_released_takes_its_old_place() -> None:
    stage, program = filled(900, every=3)
    assert program.reserves(1000) == (0, 300)
    assert program.asks("release", cursor="c", epoch=1) == {"epoch": 2, "released": 300}
    assert rest_of(stage) == words(*range(900))


def test_a_released_cursor_may_have_another_selector_and_an_open_one_not() -> None:
    stage, program = filled(4)
    with pytest.raises(Refused, match="malformed: cursor c of queue://Q has the selector region = 'EU', not none"):
        program.asks("open", cursor="c", queue="Q", run="r2")
    with pytest.raises(Refused, match="has the selector region = 'EU', not region = 'US': release it first"):
        opens(program, selector="region = 'US'", run="r2")
    assert program.reserves(9) == (0, 2)
    program.asks("release", cursor="c", epoch=1)
    assert opens(program, selector="region = 'US'", run="r2") == {
        "epoch": 3, "from": 2, "to": 2, "selector": "region = 'US'",
    }  # fmt: skip
    assert program.reserves(9, epoch=3) == (2, 4)
    assert program.reads(2, 4, epoch=3) == words(1, 3)
    stage = stage.restarts()
    back = again(program, stage)
    assert opens(back, selector="region = 'US'", run="r3")["selector"] == "region = 'US'"


def test_cursors_with_several_selectors_and_one_without_share_a_queue() -> None:
    _, program = filled(9, every=3)
    opens(program, "us", "region = 'US'")
    program.opens("all")
    assert program.reserves(2) == (0, 2)
    assert program.reserves(3, "us") == (0, 3)
    assert program.reserves(9, "all") == (0, 4)
    assert program.reads(0, 2) == words(0, 3)
    assert program.reads(0, 3, "us") == words(1, 2, 4)
    assert program.reads(0, 4, "all") == words(5, 6, 7, 8)


def test_a_queue_with_priorities_gives_the_highest_that_match_first() -> None:
    policy = PolicyEntry(parse_destination(Q), queue=QueuePolicy(prioritized_messages=True))
    stage = Stage(policy)
    producer = stage.peer("p")
    for priority in (4, 9, 1, 9, 4):
        for region in ("EU", "US"):
            producer.sends(Q, f"{region}{priority}", priority=priority, properties={"region": region})
    stage.settle()
    for there in (stage, stage.restarts(policies=(policy,))):
        program = Program(there)
        opens(program)
        assert program.reserves(4) == (0, 4)
        assert program.reads(0, 4) == ["EU9", "EU9", "EU4", "EU4"]
        assert rest_of(there) == ["US9", "US9", "US4", "US4", "EU1", "US1"]


def test_an_exclusive_cursor_keeps_what_does_not_match_as_well() -> None:
    stage = Stage()
    sends(stage, 0, 4)
    program = Program(stage)
    opens(program, exclusive=True)
    assert program.reserves(9) == (0, 2)
    assert rest_of(stage) == []
    program.asks("release", cursor="c", epoch=1)
    assert rest_of(stage) == words(0, 1, 2, 3)


def test_as_many_bytes_are_held_as_are_asked_for() -> None:
    stage, program = filled(20)
    size = stage.store.sizes(parse_destination(Q), [1])[0]
    assert program.reserves(10, bytes=3 * size) == (0, 3)
    assert program.reserves(10, bytes=3 * size) == (0, 3)
    assert program.reserves(10, bytes=1, acknowledge=3) == (3, 4)
    assert program.reads(3, 4) == words(6)


def test_what_is_not_persistent_is_written_down_when_it_matches_alone() -> None:
    stage = Stage()
    sends(stage, 0, 6, persistent=False)
    program = Program(stage)
    opens(program)
    assert program.reserves(9) == (0, 3)
    assert len(stage.store.kept(parse_destination(Q))) == 3
    stage = stage.restarts()
    assert again(program, stage).reads(0, 3) == words(0, 2, 4)


def test_without_room_in_the_store_what_is_not_persistent_waits_and_the_answer_says_so() -> None:
    stage = Stage()
    sends(stage, 0, 4, persistent=False)
    program = Program(stage)
    opens(program)
    stage.has_room(False)
    with pytest.raises(Refused, match="limit: the store has no room for what is not persistent in queue://Q"):
        program.reserves(9)
    stage.has_room(True)
    assert program.reserves(9) == (0, 2)


def test_what_is_over_its_time_is_not_held() -> None:
    stage = Stage()
    producer = stage.peer("p")
    now = stage.environment.time.wall_ms
    producer.sends(Q, "late", properties={"region": "EU"}, expiration_ms=now + 1000)
    producer.sends(Q, "m1", properties={"region": "EU"})
    stage.settle()
    for there in (stage, stage.restarts()):
        program = Program(there)
        there.environment.advance(2)
        opens(program)
        assert program.reserves(9) == (0, 1)
        assert program.reads(0, 1) == ["m1"]


def test_a_paused_queue_gives_a_cursor_nothing() -> None:
    stage, program = filled(4)
    queue = queue_of(stage)
    queue.pause()
    assert program.reserves(9) == (0, 0)
    queue.resume()
    assert program.reserves(9) == (0, 2)


def test_a_purge_amid_a_search_leaves_what_is_held() -> None:
    stage, program = filled(1000)
    program.begins_to_ask("reserve", cursor="c", epoch=1, messages=900)
    stage.runs()
    queue_of(stage).purge()
    stage.settle()
    stage.syncs()
    found = program.hears()
    assert found is not None
    held = int(str(found["to"]))
    assert program.reads(0, held) == words(*range(0, 2 * held, 2))
    assert stage.view(Q).pending == stage.view(Q).in_flight == held


def test_messages_that_lie_apart_are_limited_by_the_record_of_the_cursor() -> None:
    reserved = ReservedMessages(0)
    while not reserved.is_full(MAX_RESERVED):
        reserved.add(2 * len(reserved) + 1, len(reserved), 0, 0)
    assert len(reserved) == MAX_RUNS
    cursor = Cursor("c" * 200, parse_destination("queue://" + "q" * 1000), "shown", False)
    cursor.selector = "s" * MAX_TEXT_BYTES
    cursor.reserved = reserved
    value = cursor.metadata_record().value
    assert value is not None
    assert len(value) < MAX_VALUE_BYTES


def test_a_record_of_a_version_without_selectors_is_that_of_a_cursor_without_one() -> None:
    value = (
        b'{"kind":0,"destination":"Q","shown":"queue://Q","exclusive":false,"epoch":3,"run":"r","past":[],"user":"",'
        b'"released":false,"from":7,"held":[[5,2]]}'
    )
    cursor = decode_cursor(b"c", value)
    assert (cursor.selector, cursor.searches, list(cursor.recovered)) == ("", False, [5, 6])
    assert cursor.metadata_record().value == value.replace(b"[[5,2]]", b"[]"), "and it is written as it was"


def test_a_selector_that_is_none_is_refused() -> None:
    _, program = filled(1)
    with pytest.raises(Refused, match=r"malformed: .*selector"):
        opens(program, "d", "region = ")
    assert [row["cursor"] for row in program.cursors()] == ["c"]
    assert opens(program, "d", "  ").get("selector") is None


def reading(count: int) -> tuple[Stage, Program]:
    """A search whose first read of the store is not answered yet."""
    stage, _ = filled(count)
    stage = stage.restarts(clean=True)
    program = Program(stage, "again")
    program.begins_to_ask("reserve", cursor="c", epoch=1, messages=9000)
    for _ in range(3):
        stage.runs()
    assert len(stage.store.reads) == 1
    return stage, program


def test_what_another_cursor_takes_during_a_read_is_not_held_twice() -> None:
    stage, program = reading(80)
    other = Program(stage, "other")
    other.begins_to_ask("open", cursor="all", queue="Q", run="r1")
    other.begins_to_ask("reserve", cursor="all", epoch=1, messages=30)
    stage.settle()
    stage.syncs()
    assert other.replies.takes_deliveries()
    found = program.hears()
    assert found == {"from": 0, "to": 25, "waiting": 0}
    assert program.reads(0, 25) == words(*range(30, 80, 2))
    assert Program(stage, "third").reads(0, 30, "all") == words(*range(30))
    assert rest_of(stage) == words(*range(31, 80, 2))


@pytest.mark.parametrize("prefetch", [1, 7, 1000])
@pytest.mark.parametrize("count", [80, 3000])
def test_what_a_consumer_takes_during_a_read_is_not_held_twice(count: int, prefetch: int) -> None:
    stage, program = reading(count)
    listener = stage.peer("other").consumes(Q, prefetch=prefetch)
    stage.settle()
    stage.syncs()
    taken = listener.takes()
    found = program.hears()
    assert found is not None
    end = int(str(found["to"]))
    held = program.reads(0, end) if end else []
    assert sorted([*held, *taken, *rest_of(stage)], key=lambda text: int(text[1:])) == words(*range(count))
    assert held == [f"m{number}" for number in range(0, count, 2) if f"m{number}" not in taken]


def test_what_is_released_to_a_long_line_on_the_disk_takes_its_old_place() -> None:
    count = MAX_PAGED_OUT_MESSAGES + 100
    stage = Stage()
    producer = stage.peer("p")
    for number in range(count):
        producer.sends(Q, f"m{number}", properties={"region": "EU"} if number == 10 else {})
    stage.settle()
    stage = stage.restarts(clean=True)
    program = Program(stage)
    opens(program)
    assert program.reserves(9) == (0, 1)
    program.asks("release", cursor="c", epoch=1)
    listener = stage.peer("other").consumes(Q, prefetch=20)
    stage.settle()
    assert listener.takes() == words(*range(20))


def test_a_page_that_was_the_last_one_is_not_looked_at_again_for_what_returns_before_it() -> None:
    stage, _ = filled(MAX_PAGED_OUT_MESSAGES, every=1024)
    stage = stage.restarts(clean=True)
    program = Program(stage, "again")
    assert program.reserves(1000) == (0, 4)
    producer = stage.peer("more")
    producer.sends(Q, *["x"] * 300)
    producer.sends(Q, "y", properties={"region": "EU"})
    stage.settle()
    assert program.reserves(1000) == (0, 5)
    listener = stage.peer("other").consumes(Q, prefetch=5)
    stage.settle()
    assert listener.takes() == words(1, 2, 3, 4, 5)
    assert program.reserves(1000) == (0, 5)
    looks = search_of(stage).looks
    listener.peer.leaves()
    stage.settle()
    assert program.reserves(1000) == (0, 5)
    assert search_of(stage).looks - looks < MAX_PAGED_OUT_MESSAGES // 4
    assert rest_of(stage)[:4000] == [f"m{number}" for number in range(MAX_PAGED_OUT_MESSAGES) if number % 1024][:4000]
