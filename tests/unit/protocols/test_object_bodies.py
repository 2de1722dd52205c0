"""What stands in a body is never made into an object, whatever its type and whichever way it goes.

CVE-2015-5254, CVE-2016-4978, CVE-2025-54539: a Java or Python serialisation stream that runs code where it is read.
"""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from typing import Final

import pytest

from spanwire.protocols.base import ConnectionSettings
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.stomp.broker_connection import StompBrokerConnection
from spanwire.protocols.stomp.message_format import stomp_formats
from tests.support.openwire_dialogue import World
from tests.support.stomp_dialogue import Stage

QUEUE: Final = wire.ActiveMQQueue("OBJECTS")
GADGET: Final = b"\xac\xed\x00\x05sr\x00\x2eorg.apache.commons.collections.map.LazyMap" + bytes(range(256))
TRANSFORMATIONS: Final = (
    "jms-object-json", "jms-object-xml", "jms-map-json", "jms-map-xml", "jms-byte", "../../gadget", "os.system",
)  # fmt: skip


def pickled(mark: Path) -> bytes:
    """A pickle that makes a file when it is loaded; written by hand, so that nothing here pickles."""
    return b"cos\nsystem\n(S'touch " + str(mark).encode() + b"'\ntR."


def test_s10_an_object_message_reaches_a_stomp_client_without_its_object() -> None:
    world = World(other_formats=stomp_formats())
    peer = world.connect()
    peer.produces(QUEUE)
    plain = peer.text_message(QUEUE, "")
    message = wire.ActiveMQObjectMessage()
    message.producer_id, message.message_id, message.destination = plain.producer_id, plain.message_id, QUEUE
    message.content = GADGET
    peer.succeeds(message)
    now = world.environment.now()
    client = StompBrokerConnection(world.broker, ConnectionSettings(), now)
    before = set(sys.modules)
    client.receive_data(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0", now)
    client.receive_data(b"SUBSCRIBE\nid:1\ndestination:/queue/OBJECTS\nselector:JMSPriority >= 0\n\n\0", now)
    world.settle()
    received = b"".join(client.data_to_send())
    assert b"\nMESSAGE\n" in received or b"\0MESSAGE\n" in received
    assert b"LazyMap" not in received
    assert set(sys.modules) == before


@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
def test_s10_a_transformation_named_by_a_client_loads_nothing_and_runs_nothing(
    transformation: str, tmp_path: Path
) -> None:
    mark = tmp_path / "canary"
    body = base64.b64encode(pickled(mark)).decode()
    stage = Stage()
    before = set(sys.modules)
    sender = stage.peer("1.2")
    sender.sends(f"SEND\ndestination:/queue/A\ntransformation:{transformation}\n\n{body}\0")
    reader = stage.peer("1.2")
    reader.sends("SUBSCRIBE\nid:1\ndestination:/queue/A\nselector:x = 1 OR x IS NULL\n\n\0")
    for frame in reader.receives():
        assert frame.body in (b"", body.encode()), frame
    assert not mark.exists()
    assert set(sys.modules) == before


def test_s10_a_pickle_is_bytes_like_any_other(tmp_path: Path) -> None:
    mark = tmp_path / "canary"
    body = pickled(mark)
    stage = Stage()
    sender, reader = stage.peer("1.2"), stage.peer("1.2")
    reader.sends("SUBSCRIBE\nid:1\ndestination:/queue/A\n\n\0")
    sender.sends(f"SEND\ndestination:/queue/A\ncontent-length:{len(body)}\n\n".encode() + body + b"\0")
    (frame,) = reader.receives()
    assert frame.body == body
    assert not mark.exists()


def test_s12_cve_2017_15709_a_stomp_client_hears_the_provider_and_nothing_of_the_platform() -> None:
    stage = Stage()
    now = stage.environment.now()
    client = StompBrokerConnection(stage.broker, ConnectionSettings(), now)
    client.receive_data(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0", now)
    answer = b"".join(client.data_to_send()).decode()
    headers = dict(line.split(":", 1) for line in answer.splitlines()[1:] if ":" in line)
    assert headers.keys() == {"version", "session", "server", "heart-beat"}
    assert headers["server"].startswith("Spanwire/")
    for word in (
        sys.platform,
        "python",
        "linux",
        str(sys.version_info.major) + "." + str(sys.version_info.minor) + ".",
    ):
        assert word not in headers["server"].lower()
