"""kill -9 inside every kind of transaction, after each of its steps and while each is on its way: all of it or nothing,
and what was promised in a prepare is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from spanwire.protocols.openwire.codec import _marshallers as wire
from tests.faults.branches import (
    BEGIN,
    COMMIT_ONE_PHASE,
    COMMIT_TWO_PHASE,
    END,
    PREPARE,
    ROLLBACK,
    TransactionClient,
)
from tests.faults.broker import FragileBroker
from tests.support.stomp_socket import StompSocket

UNIT: Final = 9  # messages that a transaction takes, and as many that it sends: a commit of so many moves them
LAST: Final = "nothing follows"
LOCAL: Final = (COMMIT_ONE_PHASE,)
ONE_PHASE: Final = (END, COMMIT_ONE_PHASE)
TWO_PHASES: Final = (END, PREPARE, COMMIT_TWO_PHASE)
ROLLED_BACK: Final = (END, PREPARE, ROLLBACK)
KINDS: Final = {"local": LOCAL, "one phase": ONE_PHASE, "two phases": TWO_PHASES, "rolled back": ROLLED_BACK}
WORK: Final = -1  # nothing was asked for but the work
CASES: Final = [
    pytest.param(kind, step, answered, id=f"{kind}, step {step}, {'answered' if answered else 'on its way'}")
    for kind, steps in KINDS.items()
    for step in range(-1, len(steps))
    for answered in (True, False)
]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FragileBroker]:
    with FragileBroker(Path(tmp_path_factory.mktemp("broker"))) as found:
        yield found


class Run:
    """One transaction on queues of its own, and the broker's death in it."""

    def __init__(self, broker: FragileBroker, number: int) -> None:
        self.broker: Final = broker
        self.number: Final = number
        self.taken: Final = f"IN.{number}"
        self.sent: Final = f"OUT.{number}"

    def dies(self, kind: str, last: int, answered: bool) -> None:
        """Work, and take the steps up to ``last``; that one's answer is waited for or not."""
        steps = KINDS[kind]
        with TransactionClient(self.broker.openwire_port, f"client{self.number}") as client:
            for place in range(UNIT):
                client.do(client.message(self.taken, f"in {place}"))
            client.subscribe(self.taken)
            messages = [client.take() for _ in range(UNIT)]
            transaction_id = client.local() if kind == "local" else self.xid()
            client.do(client.transaction(transaction_id, BEGIN))
            commands: list[wire.BaseCommand] = []
            for place, message in enumerate(messages):
                commands.append(client.acknowledgement(message, transaction_id))
                commands.append(client.message(self.sent, f"out {place}", transaction_id))
            work = len(commands)
            commands.extend(client.transaction(transaction_id, step) for step in steps[: last + 1])
            end = len(commands) if answered or len(commands) > work else work
            for command in commands[: end if answered else end - 1]:
                client.do(command)
            if not answered:
                client.begin_to(commands[end - 1])
            self.broker.kill()
        self.broker.start()

    def xid(self) -> wire.XATransactionId:
        return wire.XATransactionId(
            format_id=4711, global_transaction_id=f"run {self.number}".encode(), branch_qualifier=b"\xff\x01"
        )

    def in_doubt(self) -> bool:
        with TransactionClient(self.broker.openwire_port, "recovery") as client:
            found = [xid.global_transaction_id for xid in client.in_doubt()]
        assert found in ([], [self.xid().global_transaction_id])
        return bool(found)

    def finishes(self, kind: int) -> None:
        with TransactionClient(self.broker.openwire_port, "recovery") as client:
            client.do(client.transaction(self.xid(), kind))

    def drained(self) -> tuple[list[str], list[str]]:
        """All that is left in both queues, and stays there; a last message that goes tells where each of them ends."""
        return self._drain(self.taken), self._drain(self.sent)

    def _drain(self, queue: str) -> list[str]:
        found: list[str] = []
        with StompSocket(self.broker.stomp_port) as client:
            client.connect("1.1")
            client.type(f"SUBSCRIBE\nid:s\ndestination:/queue/{queue}\nack:client-individual\n\n\0")
            client.type(f"SEND\ndestination:/queue/{queue}\n\n{LAST}\0")
            while True:
                frame = client.receive()
                assert frame is not None, "the broker has ended the connection"
                if frame.command == "RECEIPT":
                    return found
                if (body := frame.body.decode()) != LAST:
                    found.append(body)
                    continue
                client.type(f"ACK\nsubscription:s\nmessage-id:{frame.headers['message-id']}\nreceipt:last\n\n\0")


NOTHING: Final = ([f"in {place}" for place in range(UNIT)], list[str]())
ALL: Final = (list[str](), [f"out {place}" for place in range(UNIT)])


@pytest.mark.parametrize(("kind", "step", "answered"), CASES)
def test_a_killed_broker_leaves_all_of_a_transaction_or_nothing(
    broker: FragileBroker, kind: str, step: int, answered: bool, request: pytest.FixtureRequest
) -> None:
    run = Run(broker, CASES.index(next(case for case in CASES if case.id == request.node.callspec.id)))
    run.dies(kind, step, answered)
    asked = KINDS[kind][step] if step >= 0 else WORK
    doubt = run.in_doubt()
    if asked == PREPARE and answered:
        assert doubt, "what was promised is forgotten"
    if doubt:
        assert asked in (PREPARE, COMMIT_TWO_PHASE, ROLLBACK)
        assert run.drained() == ([], []), "what is in doubt was given away"
        run.finishes(COMMIT_TWO_PHASE if asked != ROLLBACK else ROLLBACK)
        assert not run.in_doubt()
    committed = asked in (COMMIT_ONE_PHASE, COMMIT_TWO_PHASE)
    found = run.drained()
    if doubt:
        assert found == (NOTHING if asked == ROLLBACK else ALL)
    elif committed and answered:
        assert found == ALL
    elif asked == COMMIT_TWO_PHASE:
        assert found == ALL, "prepared, and rolled back by nobody"
    elif committed:
        assert found in (ALL, NOTHING)
    else:
        assert found == NOTHING


def test_what_is_in_doubt_stays_so_through_kills_of_the_start_and_a_clean_stop(broker: FragileBroker) -> None:
    run = Run(broker, len(CASES))
    run.dies("two phases", KINDS["two phases"].index(PREPARE), answered=True)
    broker.kill()
    broker.start_and_kill(0.2)
    broker.start()
    assert run.in_doubt()
    assert broker.stop() == 0
    broker.start()
    assert run.in_doubt()
    run.finishes(ROLLBACK)
    broker.kill()
    broker.start()
    assert not run.in_doubt()
    assert run.drained() == NOTHING
