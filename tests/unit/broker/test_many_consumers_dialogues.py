"""Of more than a few consumers of a queue, those without room are passed over until their windows open again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spanwire.broker.dispatch.connection_output import MAX_OUTPUT_BYTES
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.queue.queue_consumers import FEW
from spanwire.model.acks import DELIVERED_ACK
from spanwire.model.destination import QUEUE, Destination
from tests.support.dialogue.broker_dialogue import Listener, Peer, Stage

Q = "queue://Q"
MANY = FEW + 3
PEERS = 3
OFTEN = (
    "send",
    "send some",
    "acknowledge",
    "acknowledge",
    "deliver",
    "take",
    "commit",
    "roll back",
    "block",
    "unblock",
)
STEPS = (*OFTEN, *OFTEN, *OFTEN, "widen", "narrow", "leave", "come", "come with a pattern", "pull")


def many(stage: Stage, count: int = MANY, prefetch: int = 1) -> list[Listener]:
    peer = stage.peer("many")
    return [peer.consumes(Q, prefetch=prefetch) for _ in range(count)]


def test_many_consumers_take_messages_in_turn() -> None:
    stage = Stage()
    consumers = many(stage, prefetch=2)
    stage.peer("p").sends(Q, *map(str, range(2 * MANY)), persistent=False)
    assert [one.takes() for one in consumers] == [[str(number), str(number + MANY)] for number in range(MANY)]


def test_a_consumer_whose_window_opens_again_takes_the_oldest_message() -> None:
    stage = Stage()
    consumers = many(stage)
    stage.peer("p").sends(Q, *map(str, range(MANY + 3)), persistent=False)
    assert [one.takes() for one in consumers] == [[str(number)] for number in range(MANY)]
    for index, expected in ((5, MANY), (2, MANY + 1), (5, MANY + 2)):
        consumers[index].acknowledges(consumers[index].out[-1], count=1)
        assert consumers[index].takes() == [str(expected)]
    consumers[7].acknowledges("7", count=1)
    stage.peer("q").sends(Q, "last", persistent=False)
    assert consumers[7].takes() == ["last"]


class Crowd:
    """Consumers of one queue on a few connections, and what happens to them."""

    def __init__(self, keeps_window: bool) -> None:
        self.stage = Stage(PolicyEntry(Destination(QUEUE, ">"), prefetch_extension=not keeps_window))
        self.producer = self.stage.peer("p")
        self.peers: list[Peer] = [self.stage.peer(f"c{number}") for number in range(PEERS)]
        self.consumers = [self.peers[number % PEERS].consumes(Q, prefetch=1) for number in range(MANY)]
        self.out: dict[Listener, list[str]] = {one: [] for one in self.consumers}
        self.transacted: dict[Listener, list[str]] = {}
        self.sent = 0

    def does(self, step: str, number: int) -> None:
        consumer = self.consumers[number % len(self.consumers)]
        peer, broker, out = consumer.peer, self.stage.broker, self.out[consumer]
        transaction = self.peers.index(peer) + 1
        if step.startswith("send"):
            count = 1 if step == "send" else MANY
            self.producer.sends(Q, *[str(self.sent + one) for one in range(count)], persistent=False)
            self.sent += count
        elif step == "acknowledge" and out:
            consumer.acknowledges_one(out.pop(number % len(out)))
        elif step == "deliver" and out:
            consumer.acknowledges(out[-1], ack_type=DELIVERED_ACK, count=1)
        elif step == "take" and out:
            if not any(one.peer is peer for one in self.transacted):
                peer.begins(transaction)
            self.transacted.setdefault(consumer, []).append(out[0])
            consumer.acknowledges_one(out.pop(0), transaction=transaction)
        elif step in ("commit", "roll back") and any(one.peer is peer for one in self.transacted):
            peer.commits(transaction) if step == "commit" else peer.rolls_back(transaction)
            for one in [one for one in self.transacted if one.peer is peer]:
                back = self.transacted.pop(one)
                if step == "roll back":
                    self.out[one][:0] = back
        elif step == "leave" and consumer not in self.transacted and len(self.consumers) > FEW - 2:
            self.consumers.remove(consumer)
            consumer.leaves()
        elif step.startswith("come") or step == "pull":
            target = "queue://Q.>" if step.endswith("pattern") else Q
            came = peer.consumes(target, prefetch=0 if step == "pull" else 1 + number % 3)
            if step == "pull":
                came.pulls(0)
            self.consumers.append(came)
            self.out[came] = []
        elif step in ("block", "unblock"):
            peer.flushes(MAX_OUTPUT_BYTES + 1 if step == "block" else 0)
        elif step in ("widen", "narrow"):
            broker.set_prefetch(consumer.subscription, 4 if step == "widen" else 1, self.stage.now)

    def check(self) -> None:
        self.stage.settle()
        for consumer in self.consumers:
            self.out[consumer] += consumer.takes()
        view = self.stage.view(Q)
        if view.pending > view.in_flight:
            assert not [one.info.consumer_id for one in self.consumers if one.subscription.can_take()]


@given(st.booleans(), st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 999)), min_size=60, max_size=90))
def test_no_message_waits_while_a_consumer_has_room(keeps_window: bool, steps: list[tuple[str, int]]) -> None:
    crowd = Crowd(keeps_window)
    crowd.does("send some", 0)
    crowd.check()
    for step, number in steps:
        crowd.does(step, number)
        crowd.check()
