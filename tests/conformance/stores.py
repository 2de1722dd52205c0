"""What every message store must do. A test module inherits the classes and says how to make a driver."""

from __future__ import annotations

from typing import Final, Protocol

import pytest

from spanwire.broker.metadata import CURSORS, MAX_KEY_BYTES, MAX_VALUE_BYTES, SUBSCRIPTIONS, XA_BRANCHES, MetadataRecord
from spanwire.broker.persistence.recovered import RecoveredDestination
from spanwire.broker.persistence.store_unit import StoreUnit, Transfer
from spanwire.broker.ports import Store
from spanwire.model.destination import QUEUE, SCHEDULE, SUBSCRIPTION, TRANSACTION, Destination
from spanwire.model.errors import ResourceAllocationError
from spanwire.model.message import Message
from tests.support.plain_format import body_of, plain_message

ORDERS: Final = Destination(QUEUE, "ORDERS")
BILLS: Final = Destination(QUEUE, "BILLS")
STAGED: Final = Destination(TRANSACTION, "staged")


class StoreDriver(Protocol):
    """A store and whoever does its late work. ``stored`` is the last position reported, ``fetched`` the answers."""

    stored: int
    fetched: dict[int, list[Message | None]]

    @property
    def store(self) -> Store: ...

    def turn(self) -> None: ...


class DurableStoreDriver(StoreDriver, Protocol):
    """A store that outlives its process."""

    recovered: list[RecoveredDestination]
    metadata: dict[int, dict[bytes, bytes]]
    clean: bool

    def reopen(self) -> None: ...

    def crash(self) -> None: ...


def bodies(messages: list[Message | None]) -> list[bytes | None]:
    """The bodies of fetched messages."""
    return [None if message is None else body_of(message) for message in messages]


def with_traits(number: int, priority: int, expiration_ms: int) -> Message:
    """A message that is not usual."""
    plain = plain_message(ORDERS, number, b"body %d" % number)
    cuts = (plain.content_start, plain.properties_start, plain.tail_start)
    origin = (plain.producer_id, plain.sequence)
    return Message(plain.format_id, plain.raw, *cuts, ORDERS, *origin, True, priority, expiration_ms, 0)


class StoreConformance:
    """What the broker sees of a store while it runs."""

    def driver(self) -> StoreDriver:
        raise AssertionError("a test class says which store it is about")

    def test_sequences_rise_per_destination(self) -> None:
        store = self.driver().store
        orders = [store.append(ORDERS, plain_message(ORDERS, n)) for n in range(3)]
        bills = [store.append(BILLS, plain_message(BILLS, n)) for n in range(2)]
        assert orders == sorted(set(orders))
        assert bills == sorted(set(bills))

    def test_the_sequence_of_the_next_message_is_known_before(self) -> None:
        store = self.driver().store
        for number in range(2):
            before = store.next_sequence(ORDERS), store.next_sequence(BILLS)
            additions = [(ORDERS, plain_message(ORDERS, number)), (BILLS, plain_message(BILLS, number))]
            assert tuple(store.append_unit(additions, [], [])) == before
        high = store.next_sequence(ORDERS)
        store.remove_destination(ORDERS)
        assert store.next_sequence(ORDERS) == high
        assert store.append(ORDERS, plain_message(ORDERS, 9)) == high

    def test_fetch_answers_later_in_the_order_asked_for_with_none_for_what_is_not_there(self) -> None:
        driver = self.driver()
        store = driver.store
        first, second, third = (store.append(ORDERS, plain_message(ORDERS, n, b"%d" % n)) for n in (1, 2, 3))
        store.remove(ORDERS, second)
        store.fetch(7, ORDERS, [third, second, first, third + 100])
        assert driver.fetched == {}
        driver.turn()
        assert bodies(driver.fetched[7]) == [b"3", None, b"1", None]

    def test_sizes_are_known_without_reading_before_and_after_messages_are_stored(self) -> None:
        driver = self.driver()
        store = driver.store
        sequences = [store.append(ORDERS, plain_message(ORDERS, n, bytes(1000 * n))) for n in range(4)]
        store.remove(ORDERS, sequences[2])
        before = store.sizes(ORDERS, [*sequences, 99])
        driver.turn()
        after = store.sizes(ORDERS, [*sequences, 99])
        for sizes in (before, after):
            assert (sizes[2], sizes[4]) == (0, 0)
            for place in (0, 1, 3):
                assert 1000 * place < sizes[place] < 1000 * place + 900
        assert store.sizes(BILLS, [1]) == [0]
        assert driver.fetched == {}

    def test_messages_are_the_same_when_they_are_read_back_after_they_were_stored(self) -> None:
        driver = self.driver()
        sizes = (0, 1, 7, 8, 100, 3000, 40_000)
        sequences = [driver.store.append(ORDERS, plain_message(ORDERS, n, b"x" * n)) for n in sizes]
        driver.store.position()
        driver.turn()
        driver.store.fetch(1, ORDERS, sequences)
        driver.turn()
        assert bodies(driver.fetched[1]) == [b"x" * n for n in sizes]

    def test_a_fetch_from_an_unknown_destination_gives_none(self) -> None:
        driver = self.driver()
        driver.store.fetch(1, BILLS, [1, 2])
        driver.turn()
        assert driver.fetched == {1: [None, None]}

    def test_the_position_never_goes_back_and_is_reached(self) -> None:
        driver = self.driver()
        store = driver.store
        asked = [store.position()]
        for number in range(5):
            sequence = store.append(ORDERS, plain_message(ORDERS, number))
            asked.append(store.position())
            if number % 2:
                store.remove(ORDERS, sequence)
            asked.append(store.position())
            driver.turn()
            assert driver.stored >= asked[-1]
        assert asked == sorted(asked)

    def test_nothing_is_reported_as_stored_before_a_turn(self) -> None:
        driver = self.driver()
        driver.store.append(ORDERS, plain_message(ORDERS, 1))
        assert driver.stored < driver.store.position()

    def test_a_unit_adds_and_removes_together(self) -> None:
        driver = self.driver()
        store = driver.store
        old = store.append(ORDERS, plain_message(ORDERS, 1, b"old"))
        driver.turn()
        waiting = store.append(ORDERS, plain_message(ORDERS, 2, b"waiting"))
        added = store.append_unit(
            [(BILLS, plain_message(BILLS, 3, b"bill")), (ORDERS, plain_message(ORDERS, 4, b"order"))],
            [(ORDERS, old), (ORDERS, waiting)],
            [],
        )
        assert len(added) == 2
        store.fetch(1, ORDERS, [old, waiting, added[1]])
        store.fetch(2, BILLS, [added[0]])
        driver.turn()
        assert bodies(driver.fetched[1]) == [None, None, b"order"]
        assert bodies(driver.fetched[2]) == [b"bill"]

    def test_a_transfer_gives_messages_to_another_line_in_its_order_with_all_of_its_unit(self) -> None:
        driver = self.driver()
        store = driver.store
        staged = [store.append(STAGED, plain_message(ORDERS, n, b"%d" % n)) for n in range(5)]
        before = store.append(ORDERS, plain_message(ORDERS, 9, b"before"))
        driver.turn()
        waiting = store.append(STAGED, plain_message(ORDERS, 6, b"not stored yet"))
        transfers = [
            Transfer(STAGED, [staged[3], staged[0], waiting, staged[1]], ORDERS),
            Transfer(STAGED, [staged[4]], BILLS),
        ]
        orders, bills = store.transfer_unit(transfers, [(ORDERS, before)], [MetadataRecord(CURSORS, b"k", b"v")])
        after = store.append(ORDERS, plain_message(ORDERS, 7, b"after"))
        assert before < orders and orders + 4 <= after
        for request in (0, 10):  # before it is stored, and then
            store.fetch(request, ORDERS, [*range(orders, orders + 4), before, after])
            store.fetch(request + 1, BILLS, [bills])
            store.fetch(request + 2, STAGED, [*staged, waiting])
            sizes = store.sizes(ORDERS, [orders, orders + 2, orders + 4 if orders + 4 < after else before])
            assert sizes[0] > 0 and sizes[1] > 0 and sizes[2] == 0
            assert store.sizes(STAGED, [*staged, waiting]) == [0, 0, store.sizes(STAGED, [staged[2]])[0], 0, 0, 0]
            driver.turn()
            found = bodies(driver.fetched[request])
            assert found == [b"3", b"0", b"not stored yet", b"1", None, b"after"]
            assert bodies(driver.fetched[request + 1]) == [b"4"]
            assert bodies(driver.fetched[request + 2]) == [None, None, b"2", None, None, None]

    def test_what_is_not_there_leaves_a_gap_in_a_transfer(self) -> None:
        driver = self.driver()
        store = driver.store
        staged = [store.append(STAGED, plain_message(ORDERS, n, b"%d" % n)) for n in range(3)]
        store.remove(STAGED, staged[1])
        driver.turn()
        (first,) = store.transfer_unit([Transfer(STAGED, [*staged, staged[2] + 50], ORDERS)], [], [])
        driver.turn()
        (again,) = store.transfer_unit([Transfer(STAGED, staged, ORDERS)], [], [])
        assert again >= first + 4
        store.fetch(1, ORDERS, [first, first + 1, first + 2, first + 3, again])
        driver.turn()
        assert bodies(driver.fetched[1]) == [b"0", None, b"2", None, None]

    def test_a_gathered_unit_moves_messages_with_all_that_it_does(self) -> None:
        driver = self.driver()
        store = driver.store
        staged = [store.append(STAGED, plain_message(ORDERS, n, b"%d" % n)) for n in range(8)]
        before = store.append(ORDERS, plain_message(ORDERS, 9, b"before"))
        store.remove(STAGED, staged[1])
        driver.turn()
        unit = StoreUnit()
        orders = unit.transfer(STAGED, ORDERS)
        bills = unit.transfer(STAGED, BILLS)
        bills.add(staged[6:])
        orders.add(staged[:3])
        orders.add(staged[3:4])
        more = unit.transfer(STAGED, ORDERS)
        more.add([staged[4]])
        unit.remove(ORDERS, before)
        unit.remove(STAGED, staged[5])
        unit.add_metadata(MetadataRecord(CURSORS, b"k", b"v"))
        store.append_gathered(unit, [MetadataRecord(CURSORS, b"l", b"w")])
        after = store.append(ORDERS, plain_message(ORDERS, 7, b"after"))
        assert before < orders.first and more.first == orders.first + 4 < after
        driver.turn()
        store.fetch(0, ORDERS, [before, *range(orders.first, orders.first + 5), after])
        store.fetch(1, BILLS, [bills.first, bills.first + 1])
        store.fetch(2, STAGED, staged)
        driver.turn()
        assert bodies(driver.fetched[0]) == [None, b"0", None, b"2", b"3", b"4", b"after"]
        assert bodies(driver.fetched[1]) == [b"6", b"7"]
        assert bodies(driver.fetched[2]) == [None] * 8

    def test_what_was_transferred_can_be_removed_and_go_on_at_once_or_later(self) -> None:
        driver = self.driver()
        store = driver.store
        staged = [store.append(STAGED, plain_message(ORDERS, n, b"%d" % n)) for n in range(8)]
        driver.turn()
        (first,) = store.transfer_unit([Transfer(STAGED, staged[:4], ORDERS)], [], [])
        store.remove(ORDERS, first)
        store.remove(ORDERS, first)
        store.append_unit([], [(ORDERS, first + 1)], [])
        (bill,) = store.transfer_unit([Transfer(ORDERS, [first + 2], BILLS)], [(ORDERS, first + 2)], [])
        driver.turn()
        store.remove(ORDERS, first + 3)
        (second,) = store.transfer_unit([Transfer(STAGED, staged[4:], ORDERS)], [], [])
        driver.turn()
        (back,) = store.transfer_unit([Transfer(ORDERS, [second + 3, second], STAGED)], [], [])
        store.fetch(1, ORDERS, list(range(first, second + 4)))
        store.fetch(2, BILLS, [bill])
        store.fetch(3, STAGED, [back, back + 1])
        driver.turn()
        assert [body for body in bodies(driver.fetched[1]) if body is not None] == [b"5", b"6"]
        assert bodies(driver.fetched[2]) == [b"2"]
        assert bodies(driver.fetched[3]) == [b"7", b"4"]

    def test_lines_that_are_removed_take_what_they_have_and_not_what_was_transferred(self) -> None:
        driver = self.driver()
        store = driver.store
        staged = [store.append(STAGED, plain_message(ORDERS, n, b"%d" % n)) for n in range(4)]
        driver.turn()
        (first,) = store.transfer_unit([Transfer(STAGED, staged[:2], ORDERS)], [], [])
        store.transfer_unit([Transfer(STAGED, staged[2:3], BILLS)], [], [])
        store.remove_destination(STAGED)
        store.remove_destination(BILLS)
        for request in (1, 2):
            store.fetch(request, ORDERS, [first, first + 1])
            driver.turn()
            assert bodies(driver.fetched[request]) == [b"0", b"1"]
        store.fetch(3, STAGED, staged)
        driver.turn()
        assert bodies(driver.fetched[3]) == [None] * 4

    def test_removing_twice_or_what_never_was_changes_nothing(self) -> None:
        driver = self.driver()
        store = driver.store
        kept = store.append(ORDERS, plain_message(ORDERS, 1, b"kept"))
        gone = store.append(ORDERS, plain_message(ORDERS, 2))
        store.remove(ORDERS, gone)
        store.remove(ORDERS, gone)
        driver.turn()
        store.remove(ORDERS, gone)
        store.remove(ORDERS, gone + 5)
        store.remove(BILLS, 1)
        store.append_unit([], [(ORDERS, gone), (BILLS, 9)], [])
        store.note_redelivery(ORDERS, gone, 3)
        store.remove_destination(BILLS)
        driver.turn()
        store.fetch(1, ORDERS, [kept, gone])
        driver.turn()
        assert bodies(driver.fetched[1]) == [b"kept", None]

    def test_a_removed_destination_loses_its_messages_and_never_uses_a_sequence_again(self) -> None:
        driver = self.driver()
        store = driver.store
        used = [store.append(ORDERS, plain_message(ORDERS, n)) for n in range(3)]
        driver.turn()
        used.append(store.append(ORDERS, plain_message(ORDERS, 9)))
        store.remove_destination(ORDERS)
        store.add_destination(ORDERS)
        again = store.append(ORDERS, plain_message(ORDERS, 10, b"again"))
        assert again > max(used)
        store.fetch(1, ORDERS, [*used, again])
        driver.turn()
        assert bodies(driver.fetched[1]) == [None] * 4 + [b"again"]

    def test_a_shared_message_has_a_sequence_in_each_destination_and_is_removed_from_each_by_itself(self) -> None:
        driver = self.driver()
        store = driver.store
        before = store.append(BILLS, plain_message(BILLS, 1, b"before"))
        message = plain_message(ORDERS, 2, b"shared")
        orders, bills = store.append_shared([ORDERS, BILLS], message)
        assert bills > before
        store.fetch(1, ORDERS, [orders])
        driver.turn()
        store.remove(ORDERS, orders)
        store.fetch(2, ORDERS, [orders])
        store.fetch(3, BILLS, [before, bills])
        driver.turn()
        assert bodies(driver.fetched[1]) == [b"shared"]
        assert bodies(driver.fetched[2]) == [None]
        assert bodies(driver.fetched[3]) == [b"before", b"shared"]
        (single,) = store.append_shared([ORDERS], message)
        assert single > orders
        assert store.append_shared([], message) == []

    def test_a_shared_message_removed_before_it_is_stored_is_gone_from_there_alone(self) -> None:
        driver = self.driver()
        orders, bills = driver.store.append_shared([ORDERS, BILLS], plain_message(ORDERS, 1, b"shared"))
        driver.store.remove(ORDERS, orders)
        gone = driver.store.append_shared([ORDERS, BILLS], plain_message(ORDERS, 2, b"gone"))
        driver.store.remove(BILLS, gone[1])
        driver.store.remove(ORDERS, gone[0])
        driver.turn()
        driver.store.fetch(1, ORDERS, [orders, gone[0]])
        driver.store.fetch(2, BILLS, [bills, gone[1]])
        driver.turn()
        assert bodies(driver.fetched[1]) == [None, None]
        assert bodies(driver.fetched[2]) == [b"shared", None]

    def test_facts_are_stored_like_messages_and_the_position_covers_them(self) -> None:
        driver = self.driver()
        before = driver.store.position()
        driver.store.put_metadata(SUBSCRIPTIONS, b"key", b"value")
        driver.store.discard_metadata(SUBSCRIPTIONS, b"never there")
        driver.store.append_unit([], [], [MetadataRecord(CURSORS, b"", b""), MetadataRecord(CURSORS, b"gone", None)])
        asked = driver.store.position()
        assert asked > before
        driver.turn()
        assert driver.stored >= asked

    def test_a_fact_above_its_limits_is_refused_and_nothing_of_its_unit_is_done(self) -> None:
        driver = self.driver()
        with pytest.raises(ResourceAllocationError, match="the key of a metadata record has 1025 bytes"):
            driver.store.put_metadata(SUBSCRIPTIONS, bytes(MAX_KEY_BYTES + 1), b"")
        with pytest.raises(ResourceAllocationError, match="a metadata record has 1048577 bytes"):
            driver.store.append_unit(
                [(ORDERS, plain_message(ORDERS, 1))],
                [],
                [MetadataRecord(SUBSCRIPTIONS, b"k", bytes(MAX_VALUE_BYTES + 1))],
            )
        driver.store.put_metadata(SUBSCRIPTIONS, bytes(MAX_KEY_BYTES), bytes(MAX_VALUE_BYTES))
        driver.turn()
        driver.store.fetch(1, ORDERS, [1])
        driver.turn()
        assert driver.fetched[1] == [None]

    def test_there_is_room_on_a_disk_that_is_not_full(self) -> None:
        store = self.driver().store
        assert store.has_room()
        assert store.used_bytes() >= 0


class DurableStoreConformance(StoreConformance):
    """What comes back after a stop or a crash."""

    def driver(self) -> DurableStoreDriver:
        raise AssertionError("a test class says which store it is about")

    def test_stored_messages_come_back_in_order_after_a_stop_and_after_a_crash(self) -> None:
        driver = self.driver()
        sequences = [driver.store.append(ORDERS, plain_message(ORDERS, n, b"%d" % n)) for n in range(20)]
        driver.store.remove(ORDERS, sequences[3])
        driver.turn()
        driver.store.remove(ORDERS, sequences[5])
        driver.turn()
        expected = [sequence for n, sequence in enumerate(sequences) if n not in (3, 5)]
        driver.reopen()
        assert driver.clean
        assert [(str(found.destination), list(found.sequences)) for found in driver.recovered] == [
            ("queue://ORDERS", expected)
        ]
        driver.crash()
        assert not driver.clean
        assert list(driver.recovered[0].sequences) == expected
        driver.store.fetch(1, ORDERS, expected)
        driver.turn()
        assert bodies(driver.fetched[1]) == [b"%d" % n for n in range(20) if n not in (3, 5)]

    def test_sequences_are_not_used_again_after_a_stop_or_a_crash_even_if_the_message_was_never_written(self) -> None:
        driver = self.driver()
        used: list[int] = []
        for stop in (driver.reopen, driver.crash, driver.crash, driver.reopen):
            used.append(driver.store.append(ORDERS, plain_message(ORDERS, 1)))
            driver.turn()
            cancelled = driver.store.append(ORDERS, plain_message(ORDERS, 2))
            driver.store.remove(ORDERS, cancelled)
            driver.turn()
            used += [cancelled, driver.store.append(ORDERS, plain_message(ORDERS, 3))]
            stop()
        assert used == sorted(set(used))

    def test_a_destination_that_was_removed_before_a_stop_begins_above_its_old_sequences(self) -> None:
        driver = self.driver()
        used = [driver.store.append(ORDERS, plain_message(ORDERS, n)) for n in range(3)]
        driver.store.remove_destination(ORDERS)
        driver.reopen()
        assert driver.recovered == []
        assert driver.store.append(ORDERS, plain_message(ORDERS, 1)) > max(used)

    def test_redelivery_counts_survive_and_go_with_their_message(self) -> None:
        driver = self.driver()
        first, second, third = (driver.store.append(ORDERS, plain_message(ORDERS, n)) for n in range(3))
        driver.store.note_redelivery(ORDERS, first, 1)
        driver.store.note_redelivery(ORDERS, second, 1)
        driver.turn()
        driver.store.note_redelivery(ORDERS, second, 2)
        driver.store.remove(ORDERS, first)
        driver.reopen()
        assert driver.recovered[0].redeliveries == {second: 2}
        driver.crash()
        assert driver.recovered[0].redeliveries == {second: 2}
        assert list(driver.recovered[0].sequences) == [second, third]

    def test_an_empty_destination_comes_back_until_it_is_removed(self) -> None:
        driver = self.driver()
        driver.store.add_destination(BILLS)
        driver.reopen()
        assert [str(found.destination) for found in driver.recovered] == ["queue://BILLS"]
        driver.store.remove_destination(BILLS)
        driver.reopen()
        assert driver.recovered == []

    def test_crash_start_write_stop_start_keeps_everything(self) -> None:
        driver = self.driver()
        expected: list[int] = []
        for stop in (driver.crash, driver.reopen, driver.crash, driver.crash, driver.reopen, driver.reopen):
            expected.append(driver.store.append(ORDERS, plain_message(ORDERS, len(expected), b"y" * 500)))
            driver.turn()
            stop()
            assert list(driver.recovered[0].sequences) == expected

    def test_a_unit_survives_whole(self) -> None:
        driver = self.driver()
        old = driver.store.append(ORDERS, plain_message(ORDERS, 1))
        driver.turn()
        added = driver.store.append_unit(
            [(BILLS, plain_message(BILLS, n, b"z" * 2000)) for n in range(10)], [(ORDERS, old)], []
        )
        driver.turn()
        driver.crash()
        found = {str(one.destination): list(one.sequences) for one in driver.recovered}
        assert found == {"queue://ORDERS": [], "queue://BILLS": added}

    def test_a_transfer_makes_its_target_and_no_source(self) -> None:
        driver = self.driver()
        (first,) = driver.store.transfer_unit([Transfer(STAGED, [], ORDERS)], [], [MetadataRecord(CURSORS, b"k", b"v")])
        (second,) = driver.store.transfer_unit([Transfer(STAGED, [1, 2], ORDERS)], [], [])
        assert second == first
        assert driver.store.append(ORDERS, plain_message(ORDERS, 1, b"next")) == second + 2
        driver.turn()
        driver.crash()
        assert [str(one.destination) for one in driver.recovered] == [str(ORDERS)]

    def test_transfers_survive_whole_with_priorities_and_expirations(self) -> None:
        driver = self.driver()
        staged = [driver.store.append(STAGED, with_traits(n, n, 1 << 41 if n % 2 else 0)) for n in range(8)]
        driver.store.note_redelivery(STAGED, staged[6], 3)
        driver.turn()
        transfers = [Transfer(STAGED, staged[4:] + staged[:2], ORDERS), Transfer(STAGED, [staged[3]], BILLS)]
        first, bill = driver.store.transfer_unit(transfers, [], [MetadataRecord(CURSORS, b"k", b"v")])
        driver.turn()
        driver.store.remove(ORDERS, first + 1)
        driver.store.note_redelivery(ORDERS, first, 2)
        kept = [first, *range(first + 2, first + 6)]
        for stop in (driver.crash, driver.reopen, driver.reopen):
            driver.turn()
            stop()
            found = {str(one.destination): one for one in driver.recovered}
            assert list(found[str(STAGED)].sequences) == [staged[2]]
            assert list(found[str(ORDERS)].sequences) == kept
            assert list(found[str(BILLS)].sequences) == [bill]
            assert found[str(ORDERS)].redeliveries == {first: 2}
            assert found[str(ORDERS)].priorities == {first + 2: 6, first + 3: 7, first + 4: 0, first + 5: 1}
            assert list(found[str(ORDERS)].expirations.sequences) == [first + 3, first + 5]
            assert found[str(BILLS)].priorities == {bill: 3}
            assert driver.metadata == {CURSORS: {b"k": b"v"}}
            driver.store.fetch(1, ORDERS, kept)
            driver.turn()
            assert bodies(driver.fetched[1]) == [b"body %d" % n for n in (4, 6, 7, 0, 1)]

    def test_facts_survive_until_they_are_replaced_or_discarded(self) -> None:
        driver = self.driver()
        driver.store.put_metadata(SUBSCRIPTIONS, b"a", b"1")
        driver.store.put_metadata(SUBSCRIPTIONS, b"b", b"")
        driver.store.put_metadata(CURSORS, b"a", b"other table")
        driver.store.put_metadata(SUBSCRIPTIONS, b"gone", b"x")
        driver.turn()
        driver.store.put_metadata(SUBSCRIPTIONS, b"a", b"2")
        driver.store.discard_metadata(SUBSCRIPTIONS, b"gone")
        driver.turn()
        expected = {SUBSCRIPTIONS: {b"a": b"2", b"b": b""}, CURSORS: {b"a": b"other table"}}
        for stop in (driver.crash, driver.reopen, driver.reopen, driver.crash):
            stop()
            assert driver.metadata == expected

    def test_facts_of_a_unit_survive_with_its_messages(self) -> None:
        driver = self.driver()
        driver.store.put_metadata(XA_BRANCHES, b"branch", b"prepared")
        added = driver.store.append_unit(
            [(ORDERS, plain_message(ORDERS, 1))],
            [],
            [MetadataRecord(XA_BRANCHES, b"branch", None), MetadataRecord(CURSORS, b"c", b"7")],
        )
        driver.turn()
        driver.crash()
        assert driver.metadata == {CURSORS: {b"c": b"7"}}
        assert [list(found.sequences) for found in driver.recovered] == [added]

    def test_a_shared_message_survives_in_those_destinations_from_which_it_was_not_removed(self) -> None:
        driver = self.driver()
        orders, bills = driver.store.append_shared([ORDERS, BILLS], plain_message(ORDERS, 1, b"shared"))
        driver.turn()
        driver.store.remove(ORDERS, orders)
        driver.turn()
        for stop in (driver.crash, driver.reopen):
            stop()
            found = {str(one.destination): list(one.sequences) for one in driver.recovered}
            assert found == {"queue://ORDERS": [], "queue://BILLS": [bills]}
            driver.store.fetch(1, BILLS, [bills])
            driver.turn()
            assert bodies(driver.fetched[1]) == [b"shared"]

    def test_priorities_and_expirations_come_back_where_they_are_not_usual(self) -> None:
        driver = self.driver()
        plain = driver.store.append(ORDERS, plain_message(ORDERS, 1))
        urgent = driver.store.append(ORDERS, with_traits(2, 9, 0))
        idle = driver.store.append(ORDERS, with_traits(3, 0, 1 << 42))
        gone = driver.store.append(ORDERS, with_traits(4, 7, 1 << 42))
        expiring = driver.store.append(ORDERS, with_traits(5, 4, (1 << 42) + 1))
        driver.turn()
        driver.store.remove(ORDERS, gone)
        driver.turn()
        for stop in (driver.crash, driver.reopen):
            stop()
            (found,) = driver.recovered
            assert list(found.sequences) == [plain, urgent, idle, expiring]
            assert found.priorities == {urgent: 9, idle: 0}
            assert list(found.expirations.sequences) == [idle, expiring]
            assert list(found.expirations.wall_ms) == [1 << 42, (1 << 42) + 1]
            driver.store.fetch(1, ORDERS, [idle])
            driver.turn()
            assert bodies(driver.fetched[1]) == [b"body 3"]

    def test_lines_that_no_client_can_name_come_back_with_their_kind(self) -> None:
        driver = self.driver()
        lines = [Destination(kind, "client:name") for kind in (SUBSCRIPTION, TRANSACTION, SCHEDULE)]
        driver.store.append_shared(lines, plain_message(ORDERS, 1))
        driver.turn()
        driver.crash()
        assert [found.destination for found in driver.recovered] == lines
        assert [found.destination.kind for found in driver.recovered] == [SUBSCRIPTION, TRANSACTION, SCHEDULE]

    def test_used_bytes_grow_with_what_is_stored_and_go_with_it(self) -> None:
        driver = self.driver()
        before = driver.store.used_bytes()
        assert before > 0
        kept = driver.store.append(ORDERS, plain_message(ORDERS, 0))
        sequences = [driver.store.append(ORDERS, plain_message(ORDERS, n, b"z" * 60_000)) for n in range(20)]
        driver.turn()
        full = driver.store.used_bytes()
        assert full > before + 1_000_000
        for sequence in sequences:
            driver.store.remove(ORDERS, sequence)
        for number in range(6):  # a removal may lie behind its message's segment
            driver.store.remove(ORDERS, driver.store.append(ORDERS, plain_message(ORDERS, number)))
            driver.turn()
        assert driver.store.used_bytes() < full / 2
        driver.reopen()
        assert list(driver.recovered[0].sequences) == [kept]
