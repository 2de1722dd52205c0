"""A network of three brokers A → B → C as its advisories and an archive tell of it, with planted faults.

Numbers 1 to 40 go over queue ORDERS from A to B, where the archive's consumer takes them, but for:

    7   A's bridge has it acknowledged, and it arrives nowhere
    11  arrives twice at B, and is received twice
    13  waits at B since long before the end
    14  has just come to B
    17  is a dead letter of B
    19  expires at A
    23  is received without that anybody saw it sent
    0   was sent before the record begins, and is received

Numbers 101 to 104 go over queue FAR from A over B to C and are all received there; those of OTHER are in an archive
only. Of PAPER no advisory tells, but there is an archive of what was sent, 401 to 406: 403 is received nowhere, 405
twice, 406 is a dead letter in the archive.
"""

from __future__ import annotations

from pathlib import Path

from spanwire.model.message_view import STRING_VALUE
from spanwire.pipeline.report.sources import Inputs
from spanwire.protocols.primitive_map import encode_map
from tests.support.report_archives import BEFORE_MS, BEGINNING, Archive, Teller, answer, message

LAST_MS = BEFORE_MS
LOST, DOUBLED, STUCK, PENDING, DEAD, EXPIRED, UNANNOUNCED, OLD = 7, 11, 13, 14, 17, 19, 23, 0
BRIDGE, RECEIVER = "ID:bridge-a-b", "ID:receiver-1"
HOSTILE = "<script>alert(1)</script>&\"'\x1b[2J"


def planted(root: Path) -> Inputs:
    """Writes the archives, which end now."""
    BEGINNING.is_now()
    received, told, statistics, sent = Archive(), Archive(), Archive(), Archive()
    teller = Teller(told)
    teller.connection("A", "ID:sender-1", "shop")
    teller.connection("B", RECEIVER, "warehouse")
    teller.producer("A", "ORDERS", "ID:sender-1")
    teller.consumer("A", "ORDERS", BRIDGE, "NC_A_B", is_network=True)
    teller.consumer("A", "FAR", BRIDGE + "-far", "NC_A_B", is_network=True)
    teller.consumer("B", "FAR", "ID:bridge-b-c", "NC_B_C", is_network=True)
    teller.consumer("B", "ORDERS", RECEIVER, None)
    teller.consumer("C", HOSTILE, "ID:hostile", HOSTILE)
    for number in range(1, 41):
        _order(teller, received, number)
    received.put(message(OLD, "ORDERS", -5_000, ("A",)))
    for number in range(101, 105):
        at_ms = number * 100
        _hop(teller, "A", "FAR", number, at_ms, ())
        _hop(teller, "B", "FAR", number, at_ms, ("A",))
        _hop(teller, "C", "FAR", number, at_ms, ("A", "B"))
        received.put(message(number, "FAR", at_ms, ("A", "B")))
    for number in range(201, 204):
        made = message(number, "OTHER", number * 1000)
        made.broker_in_time = made.timestamp + 25
        received.put(made)
    received.put(message(300, HOSTILE, 1000))
    teller.of_message("B", "MessageDelivered", message(999, "LATE", LAST_MS), LAST_MS)
    _count(statistics)
    for number in range(401, 407):
        sent.put(message(number, "PAPER.SENT", number * 100))
    for number in (401, 402, 404, 405, 405):
        received.put(message(number, "PAPER", number * 100))
    dead = message(406, "ActiveMQ.DLQ", 40_600)
    dead.marshalled_properties = encode_map({"dlqDeliveryFailureCause": (STRING_VALUE, "given up")})
    received.put(dead)
    return Inputs(
        (received.write(root / "received"),),
        (told.write(root / "advisories"),),
        (statistics.write(root / "statistics"),),
        (sent.write(root / "sent"),),
    )


def _order(teller: Teller, received: Archive, number: int) -> None:
    at_ms = LAST_MS - 1_000 if number == PENDING else number * 1000
    if number == UNANNOUNCED:
        received.put(message(number, "ORDERS", at_ms, ("A",)))
        return
    teller.of_message("A", "MessageDelivered", message(number, "ORDERS", at_ms), at_ms + 10)
    if number == EXPIRED:
        teller.of_message("A", "Expired", message(number, "ORDERS", at_ms), at_ms + 20)
        return
    teller.of_message("A", "MessageConsumed", message(number, "ORDERS", at_ms), at_ms + 20)
    if number == LOST:
        return
    for _ in range(2 if number == DOUBLED else 1):
        _at_b(teller, received, number, at_ms)


def _at_b(teller: Teller, received: Archive, number: int, at_ms: int) -> None:
    teller.of_message("B", "MessageDelivered", message(number, "ORDERS", at_ms, ("A",)), at_ms + 40)
    if number in (STUCK, PENDING):
        return
    if number == DEAD:
        teller.of_message("B", "MessageDLQd", message(number, "ORDERS", at_ms, ("A",)), at_ms + 50)
        return
    teller.of_message(
        "B", "MessageDispatched", message(number, "ORDERS", at_ms, ("A",)), at_ms + 45, consumerId=f"{RECEIVER}:1:1"
    )
    teller.of_message("B", "MessageConsumed", message(number, "ORDERS", at_ms, ("A",)), at_ms + 50)
    received.put(message(number, "ORDERS", at_ms, ("A",)))


def _hop(teller: Teller, broker: str, queue: str, number: int, at_ms: int, path: tuple[str, ...]) -> None:
    there_ms = at_ms + 10 + 100 * len(path)
    teller.of_message(broker, "MessageDelivered", message(number, queue, at_ms, path), there_ms)
    teller.of_message(broker, "MessageConsumed", message(number, queue, at_ms, path), there_ms + 5)


def _count(statistics: Archive) -> None:
    """Queue ORDERS at A: 100 messages come, 60 go; one is unaccounted for; then the broker starts anew."""
    for number, (at_ms, enqueued, dequeued, size) in enumerate(
        [(0, 10, 0, 10), (60_000, 60, 30, 30), (120_000, 110, 60, 49), (180_000, 0, 0, 49), (240_000, 5, 4, 50)]
    ):
        counts = {"enqueueCount": enqueued, "dequeueCount": dequeued, "size": size, "expiredCount": 0}
        statistics.put(answer(number, "A", "queue://ORDERS", at_ms, **counts, consumerCount=1, producerCount=2))
