"""What a broker says of messages that were only in memory when the one before it ended."""

from __future__ import annotations

from pathlib import Path

from spanwire.client.blocking import connect
from tests.service.started import Started, spanwire


def audited(broker: Started) -> list[str]:
    done = spanwire("audit", "--data-directory", str(broker.data))
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def send(broker: Started) -> None:
    with connect(broker.broker_url) as connection, connection.session() as session:
        session.create_producer("queue://PRICES").send("kept")
        producer = session.create_producer("queue://PRICES", persistent=False)
        for number in range(3):
            producer.send(str(number))


def test_an_orderly_stop_counts_what_it_loses_with_the_memory_and_a_crash_does_not(tmp_path: Path) -> None:
    with Started(tmp_path) as broker:
        send(broker)
        assert broker.stop() == 0
    with Started(tmp_path) as broker:
        lines = audited(broker)
        assert "queue://PRICES (since start): found 1 = pending 1" in lines
        assert "  lost with the memory before this start: 3, which were never in the store" in lines
        assert "lost with the memory before this start: 3, counted as the broker stopped in order" in lines
        send(broker)
        broker.kill()
    with Started(tmp_path) as broker:
        lines = audited(broker)
        assert not any("never in the store" in line for line in lines)
        assert any("before this start: unknown, since the broker was not stopped in order" in line for line in lines)
