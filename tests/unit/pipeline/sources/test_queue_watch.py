"""The queues of a broker for a pattern, as advisories tell of them."""

from __future__ import annotations

from pathlib import Path

from spanwire.client import blocking
from spanwire.model.destination import Destination, parse_destination
from spanwire.pipeline.link.queue_watch import TOPIC, QueueWatch
from spanwire.pipeline.options import read_options
from spanwire.testing.broker import Broker
from tests.support.queues import TIMEOUT_S, numbered, send, take_all


def remove(broker: Broker, queue: str) -> None:
    """Remove an empty queue."""
    destination = parse_destination(f"queue://{queue}")
    broker._call(
        lambda embedded: embedded.service.broker.administration.remove_destination(
            destination, embedded.service.environment.now()
        )
    )


def test_a_queue_that_was_removed_is_not_found(tmp_path: Path) -> None:
    with Broker(directory=tmp_path) as broker, blocking.connect(broker.url) as connection:
        advisories = connection.session().create_consumer(TOPIC)
        send(broker.url, "A.STAYS", numbered(1))
        send(broker.url, "A.GOES", numbered(1))
        assert len(take_all(broker.url, "A.GOES")) == 1
        remove(broker, "A.GOES")
        options = read_options({"url": broker.url, "destination": "A.>"})
        watch = QueueWatch(options.login, options.destination)
        queues: dict[Destination, None] = {}
        for _ in ("added", "added", "removed"):
            message = advisories.receive(timeout=TIMEOUT_S)
            assert message is not None
            watch._note(message, queues)
        assert [queue.qualified_name for queue in queues] == ["queue://A.STAYS"]
