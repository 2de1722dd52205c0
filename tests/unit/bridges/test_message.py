"""A message on the way between two providers."""

from __future__ import annotations

from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.providers.openwire.parties import outgoing_part
from spanwire.client.aio.shared.core_connection import FLUSH_BYTES
from spanwire.model.errors import ProtocolError
from spanwire.model.message_view import TEXT, PropertyValue


class Content:
    """A message whose id nobody can read."""

    @property
    def message_id(self) -> str:
        raise ProtocolError("the id has neither a producer nor a text")

    def neutral_body(self) -> bytes | None:
        return b"x"

    def property_values(self) -> dict[str, PropertyValue]:
        return {}


def test_an_id_that_nobody_can_read_is_none() -> None:
    content = Content()
    assert BridgeMessage(content, TEXT, content, 1).message_id == ""


def test_a_large_batch_is_converted_in_parts() -> None:
    batch = [BridgeMessage(f"ID:{number}", TEXT, Content(), FLUSH_BYTES // 4) for number in range(10)]
    counts = []
    first = 0
    while first < len(batch):
        counts.append(len(outgoing_part(batch, first)))
        first += counts[-1]
    assert counts == [4, 4, 2]
