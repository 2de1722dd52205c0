"""Source and target of SQS at a queue that refuses entries of requests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from types import SimpleNamespace
from typing import Any, Final

import pytest
from botocore.exceptions import ClientError

from spanwire.bridges.model.definition import ConnectionFactory, Source, Target
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.ports import MessageRefusedError
from spanwire.bridges.providers.sqs import parties
from spanwire.bridges.providers.sqs.messages import MAX_BYTES
from spanwire.bridges.providers.sqs.parties import VISIBILITY_S, SqsSource, SqsTarget
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import JmsError
from spanwire.model.message_view import TEXT
from tests.support.bridge_dialogue import Content

WAIT_S: Final = 10.0
FACTORY: Final = ConnectionFactory("sqs://host?region=eu-central-1", provider="sqs")
QUEUE_Q: Final = Destination(QUEUE, "q")
EXPIRED: Final = {"Id": "0", "SenderFault": True, "Code": "ReceiptHandleIsInvalid", "Message": "it has expired"}
TOO_LARGE: Final = {"SenderFault": True, "Code": "InvalidParameterValue", "Message": "shorter than 1024 bytes"}

Answers = dict[str, Callable[..., Awaitable[dict[str, Any]]]]


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), WAIT_S))


def source(answers: Answers, *receipts: str) -> SqsSource:
    """A source that has received messages."""
    party = SqsSource(Source(FACTORY, QUEUE_Q), 10)
    party._connection._client = SimpleNamespace(**answers)
    for receipt in receipts:
        party._held[receipt] = 1
        party._received.append({"ReceiptHandle": receipt})
    return party


def target(send: Callable[..., Awaitable[dict[str, Any]]]) -> SqsTarget:
    party = SqsTarget(Target(FACTORY, QUEUE_Q))
    party._connection._client = SimpleNamespace(send_message_batch=send)
    return party


def messages(*texts: str) -> list[BridgeMessage]:
    return [BridgeMessage(text, TEXT, Content(text), 1) for text in texts]


async def refuse(**_: object) -> dict[str, Any]:
    return {"Failed": [EXPIRED]}


def test_a_message_whose_time_cannot_be_prolonged_spoils_no_deletion() -> None:
    async def scenario() -> None:
        async def delete(**_: object) -> dict[str, Any]:
            await party._set_visibility(VISIBILITY_S, set())
            return {}

        party = source({"delete_message_batch": delete, "change_message_visibility_batch": refuse}, "a", "b")
        await party.acknowledge()
        party.check()
        assert not party._held

    run(scenario)


def test_messages_that_are_being_deleted_are_prolonged_no_more() -> None:
    named: list[str] = []

    async def scenario() -> None:
        async def change(**words: Any) -> dict[str, Any]:
            named.extend(entry["ReceiptHandle"] for entry in words["Entries"])
            return {}

        async def delete(**_: object) -> dict[str, Any]:
            keeper = asyncio.create_task(party._keep())
            while not named:
                await asyncio.sleep(0)
            keeper.cancel()
            return {}

        party = source({"delete_message_batch": delete, "change_message_visibility_batch": change}, "a")
        party._held["b"] = 1
        await party.acknowledge()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parties, "SHARE", 1e9)
        run(scenario)
    assert set(named) == {"b"}


def test_a_receipt_that_has_expired_fails_the_acknowledgement() -> None:
    async def scenario() -> None:
        party = source({"delete_message_batch": refuse}, "a")
        with pytest.raises(JmsError, match="it has expired"):
            await party.acknowledge()

    run(scenario)


def test_an_answer_of_an_unknown_form_ends_the_link() -> None:
    async def scenario() -> None:
        async def receive(**_: object) -> dict[str, Any]:
            return {"Messages": [{"Body": "without a receipt"}]}

        party = source({"receive_message": receive})
        await party._watched(party._read())
        with pytest.raises(JmsError, match="an answer cannot be read: KeyError"):
            party.check()

    run(scenario)


def test_a_close_waits_for_a_silent_queue_no_longer_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async def never(**_: object) -> dict[str, Any]:
            await asyncio.Event().wait()
            return {}

        await source({"change_message_visibility_batch": never}, "a").close()

    monkeypatch.setattr(parties, "CLOSE_S", 0.01)
    run(scenario)


def test_a_message_that_the_queue_refuses_is_named_and_the_others_are_stored_once() -> None:
    stored: list[str] = []

    async def send(**words: Any) -> dict[str, Any]:
        wrong = [entry for entry in words["Entries"] if entry["MessageBody"] == "wrong"]
        stored.extend(entry["MessageBody"] for entry in words["Entries"] if entry not in wrong)
        return {"Failed": [{"Id": entry["Id"], **TOO_LARGE} for entry in wrong]}

    async def scenario() -> None:
        party = target(send)
        batch = messages(*"abcdefghijk", "wrong", "l", "wrong", "m")
        for index in (11, 12):
            with pytest.raises(MessageRefusedError, match="shorter than 1024 bytes") as refused:
                await party.send(batch)
            assert refused.value.index == index
            del batch[index]
        await party.send(batch)
        assert stored == list("abcdefghijklm")
        await party.send(batch[:1])
        assert stored[-1] == "a"

    run(scenario)


def test_no_message_of_a_group_is_sent_before_a_refused_one_of_it_is_out_of_the_way() -> None:
    stored: list[str] = []
    requests: list[list[str]] = []

    async def send(**words: Any) -> dict[str, Any]:
        bodies = [entry["MessageBody"] for entry in words["Entries"]]
        requests.append(bodies)
        stored.extend(body for body in bodies if body != "wrong")
        return {"Failed": [{"Id": str(bodies.index("wrong")), **TOO_LARGE}] if "wrong" in bodies else []}

    async def scenario() -> None:
        party = SqsTarget(Target(FACTORY, Destination(QUEUE, "q.fifo")))
        party._connection._client = SimpleNamespace(send_message_batch=send)
        batch = messages("a1", "wrong", "a3", "b1", "b2", "b3", "a4")
        for message in batch:
            message.group_id = "b" if message.message_id.startswith("b") else "a"
        with pytest.raises(MessageRefusedError) as refused:
            await party.send(batch)
        assert refused.value.index == 1
        assert requests == [["a1", "b1"], ["wrong", "b2"]]
        del batch[1]
        await party.send(batch)
        assert [text for text in stored if text.startswith("a")] == ["a1", "a3", "a4"]
        assert [text for text in stored if text.startswith("b")] == ["b1", "b2", "b3"]

    run(scenario)


@pytest.mark.parametrize("fault", [{"SenderFault": False}, {"Code": "KMS.AccessDenied"}, {"Code": "RequestThrottled"}])
def test_a_fault_of_the_queue_is_none_of_a_message(fault: dict[str, Any]) -> None:
    async def send(**_: object) -> dict[str, Any]:
        return {"Failed": [{"Id": "0", **TOO_LARGE, **fault}]}

    async def scenario() -> None:
        with pytest.raises(JmsError) as failed:
            await target(send).send(messages("a"))
        assert not isinstance(failed.value, MessageRefusedError)

    run(scenario)


@pytest.mark.parametrize(("largest", "bound"), [("1024", 1_024), ("1048576", MAX_BYTES), (None, MAX_BYTES)])
def test_a_target_asks_for_the_largest_message_of_its_queue(largest: str | None, bound: int) -> None:
    async def attributes(**_: object) -> dict[str, Any]:
        if largest is None:
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "GetQueueAttributes")
        return {"Attributes": {"MaximumMessageSize": largest}}

    async def scenario() -> None:
        party = target(refuse)
        party._connection._client.get_queue_attributes = attributes
        assert await party._connection.largest_message("url") == bound
        party.check()

    run(scenario)
