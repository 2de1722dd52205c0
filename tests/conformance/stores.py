"""What every message store must do. A test module inherits the classes and says how to make a driver."""

from __future__ import annotations

from typing import Final, Protocol

from spanwire.broker.ports import MessageStore
from spanwire.broker.recovery import RecoveredDestination
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.message import Message
from tests.support.plain_format import body_of, plain_message

ORDERS: Final = Destination(QUEUE, "ORDERS")
BILLS: Final = Destination(QUEUE, "BILLS")


class StoreDriver(Protocol):
    """A store and whoever does its late work. ``stored`` is the last position reported, ``fetched`` the answers."""

    stored: int
    fetched: dict[int, list[Message | None]]

    @property
    def store(self) -> MessageStore: ...

    def turn(self) -> None: ...


class DurableStoreDriver(StoreDriver, Protocol):
    """A store that outlives its process."""

    recovered: list[RecoveredDestination]
    clean: bool

    def reopen(self) -> None: ...

    def crash(self) -> None: ...


def bodies(messages: list[Message | None]) -> list[bytes | None]:
    """The bodies of fetched messages."""
    return [None if message is None else body_of(message) for message in messages]


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

    def test_fetch_answers_later_in_the_order_asked_for_with_none_for_what_is_not_there(self) -> None:
        driver = self.driver()
        store = driver.store
        first, second, third = (store.append(ORDERS, plain_message(ORDERS, n, b"%d" % n)) for n in (1, 2, 3))
        store.remove(ORDERS, second)
        store.fetch(7, ORDERS, [third, second, first, third + 100])
        assert driver.fetched == {}
        driver.turn()
        assert bodies(driver.fetched[7]) == [b"3", None, b"1", None]

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
