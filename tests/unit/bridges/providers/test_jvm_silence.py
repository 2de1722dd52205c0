"""A Java provider that does not answer is given up after a limit."""

from __future__ import annotations

import asyncio
import sys
from typing import Final

import pytest

from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.providers.jvm.connections import JvmConnection, JvmTarget
from spanwire.bridges.providers.jvm.host import JvmHost
from spanwire.model.errors import JmsError
from spanwire.model.message_view import TEXT
from tests.support.bridge_dialogue import Content

# Answers requests but those of the names in its arguments.
HOST: Final = """
import sys
from spanwire.bridges.providers.jvm.frames import LENGTHS, decode_frame, encode_frame
while lengths := sys.stdin.buffer.read(LENGTHS.size):
    text, body = LENGTHS.unpack(lengths)
    content = sys.stdin.buffer.read(text + body)
    header, _ = decode_frame(content[:text], content[text:])
    if header["do"] not in ("cancel", *sys.argv[1:]):
        sys.stdout.buffer.write(encode_frame({"id": header["id"], "messages": []}, []))
        sys.stdout.buffer.flush()
"""
SHORT_S: Final = 0.01
LONG_S: Final = 60.0


def host(*silent: str) -> JvmHost:
    return JvmHost((), [sys.executable, "-c", HOST, *silent])


def test_a_send_without_an_answer_is_an_error_that_names_the_likely_cause() -> None:
    async def scenario() -> None:
        target = JvmTarget(host("send_and_commit"), LONG_S, SHORT_S)
        await target.open({"xa": False})
        with pytest.raises(JmsError, match=r"not answered for 0\.01 s: send and commit; a broker with a full disk"):
            await target.send([BridgeMessage("ID:1", TEXT, Content("x"), 1)])
        with pytest.raises(JmsError, match="not answered"):
            target.check()
        await target.close()

    asyncio.run(asyncio.wait_for(scenario(), LONG_S))


def test_a_commit_without_an_answer_is_an_error() -> None:
    async def scenario() -> None:
        source = JvmConnection(host("commit"), LONG_S)
        await source.open({"xa": False})
        source._answer_s = SHORT_S
        with pytest.raises(JmsError, match=r"not answered for 0\.01 s: commit$"):
            await source.acknowledge()
        await source.close()

    asyncio.run(asyncio.wait_for(scenario(), LONG_S))


@pytest.mark.parametrize("waits_before", [False, True])
def test_a_receive_that_does_not_return_is_an_error(waits_before: bool) -> None:
    """Also the end of a cancelled receive, which a commit waits for."""

    async def scenario() -> None:
        source = JvmConnection(host("receive"), LONG_S)
        await source.open({"xa": False})
        if waits_before:
            waiting = asyncio.create_task(source.receive(1, 1, LONG_S))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            source._answer_s = SHORT_S
            with pytest.raises(JmsError, match=r"not answered for 0\.01 s: receive"):
                await source.commit()
        else:
            source._answer_s = SHORT_S
            with pytest.raises(JmsError, match=r"not answered for 0\.01 s: receive"):
                await source.receive(1, 1, 0.0)
        with pytest.raises(JmsError, match="not answered"):
            source.check()
        await source.close()

    asyncio.run(asyncio.wait_for(scenario(), LONG_S))
