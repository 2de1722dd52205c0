"""Dialogues with the control destination: a program that asks, and what it was answered."""

from __future__ import annotations

import json

from spanwire.broker.ports import NO_TOKEN
from spanwire.broker.reserved_destinations import CONTROL
from tests.support.dialogue.broker_dialogue import Listener, Peer, Stage
from tests.support.dialogue.text_format import properties_of, text_of

ASK = CONTROL.qualified_name


class Refused(Exception):
    """An answer with the status error."""

    def __init__(self, word: str, reason: str) -> None:
        super().__init__(reason)
        self.word = word


class Program:
    """A peer with a temporary queue for answers."""

    def __init__(self, stage: Stage, name: str = "program", user: str | None = None) -> None:
        self.stage = stage
        self.peer: Peer = stage.peer(name, user=user)
        self.reply_to = self.peer.temporary()
        self.replies: Listener = self.peer.consumes(self.reply_to)
        self.body = ""

    def begins_to_ask(self, action: str, **properties: object) -> None:
        """Send a request, with ``body`` in its body; nothing is stored or read for it yet."""
        body = str(properties.pop("body", ""))
        fields = {"action": action, **properties}
        message = self.peer.message(ASK, body, properties=fields, reply_to=self.reply_to, persistent=False)
        self.peer.sends_message(message)

    def hears(self) -> dict[str, object] | None:
        """The next answer, if there is one. Raises `Refused`."""
        taken = self.replies.takes_deliveries()
        if not taken:
            return None
        assert len(taken) == 1
        found = properties_of(taken[0].message)
        self.body = text_of(taken[0].message)
        self.replies.acknowledges(self.body)
        if found["status"] == "error":
            raise Refused(str(found["error"]), str(found["reason"]))
        assert found.pop("status") == "ok"
        return found

    def asks(self, action: str, **properties: object) -> dict[str, object]:
        """Send a request, let the store do its work, and give the answer."""
        self.begins_to_ask(action, **properties)
        self.stage.settle()
        self.stage.syncs()  # what came of reads
        found = self.hears()
        assert found is not None, f"{action} was not answered"
        return found

    def opens(self, cursor: str = "c", queue: str = "Q", run: str = "r1", exclusive: bool = False) -> int:
        found = self.asks("open", cursor=cursor, queue=queue, run=run, exclusive=exclusive)
        epoch = found["epoch"]
        assert isinstance(epoch, int)
        return epoch

    def reserves(self, messages: int, cursor: str = "c", epoch: int = 1, **more: object) -> tuple[object, object]:
        found = self.asks("reserve", cursor=cursor, epoch=epoch, messages=messages, **more)
        return found["from"], found["to"]

    def begins_to_read(self, start: int, end: int, cursor: str = "c", epoch: int = 1, prefetch: int = 1000) -> Listener:
        """A browser at work, before the store has answered."""
        selector = f"cursor = '{cursor}' AND epoch = {epoch} AND from = {start} AND to = {end}"
        return self.peer.consumes(ASK, browser=True, selector=selector, prefetch=prefetch)

    def reads(self, start: int, end: int, cursor: str = "c", epoch: int = 1) -> list[str]:
        """A range, whole; with the numbers checked."""
        browser = self.begins_to_read(start, end, cursor, epoch)
        self.stage.settle()
        deliveries = browser.takes_deliveries()
        while browser.ends == 0:
            browser.acknowledges(deliveries[-1].text)
            self.stage.settle()
            more = browser.takes_deliveries()
            assert more or browser.ends, "the browser gets no more"
            deliveries += more
        assert [delivery.sequence for delivery in deliveries] == list(range(start, end))
        browser.leaves()
        return [delivery.text for delivery in deliveries]

    def cursors(self) -> list[dict[str, object]]:
        """What is listed."""
        self.asks("cursors")
        found: list[dict[str, object]] = json.loads(self.body)
        return found

    def stages(
        self, batch: int, partition: int, *texts: str, to: str = "queue://OUT", epoch: int = 1, attempt: int = 0,
        query: str = "q", transaction: int = 1, persistent: bool = True,
    ) -> int:  # fmt: skip
        """One transaction; gives the token of its commit's answer."""
        self.peer.begins(transaction)
        self.peer.sends(to, *texts, transaction=transaction, persistent=persistent)
        fields: dict[str, object] = {
            "action": "stage", "query": query, "epoch": epoch, "batch": batch, "partition": partition,
            "attempt": attempt,
        }  # fmt: skip
        message = self.peer.message(ASK, "", properties=fields)
        self.peer.sends_message(message, transaction)
        return self.peer.commits(transaction)

    def commits(self, batch: int, *parts: str, epoch: int = 1, query: str = "q") -> tuple[object, object]:
        """Ask for a commit; gives how many messages became visible, and whether it was done before."""
        found = self.asks("commit", body="\n".join(parts), query=query, epoch=epoch, batch=batch)
        return found["messages"], found["repeated"]


def again(program: Program, stage: Stage) -> Program:
    """The same program at a broker that was started anew."""
    return Program(stage, program.peer.name)


def answered(peer: Peer, token: int) -> bool:
    """Whether a commit of a session was answered; raises what it was refused with."""
    assert token != NO_TOKEN
    return peer.is_answered(token)
