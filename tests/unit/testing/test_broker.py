"""A broker for tests, without pytest's help."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from spanwire.client import blocking
from spanwire.model.errors import IllegalStateError
from spanwire.testing import Broker
from spanwire.testing.queue import wait_until
from tests.service.started import StompClient


def send(broker: Broker, *bodies: str, headers: str = "", queue: str = "ORDERS") -> None:
    with StompClient(broker.stomp_port) as client:
        for body in bodies:
            client.transact(f"SEND\ndestination:/queue/{queue}\nreceipt:r\n{headers}\n{body}", "r")


def bodies(broker: Broker, queue: str = "ORDERS") -> list[object]:
    return [message.body for message in broker.queue(queue).messages()]


def test_a_broker_tells_its_addresses_and_its_name_is_its_own() -> None:
    with Broker() as first, Broker() as second:
        assert first.name != second.name
        assert first.url == f"tcp://127.0.0.1:{first.port}" != second.url
        assert first.stomp_url == f"stomp://127.0.0.1:{first.stomp_port}"
        assert first.vm_url == f"vm://{first.name}?create=false"


def test_the_counters_of_a_queue_follow_what_happens_to_it() -> None:
    with Broker() as broker:
        queue = broker.queue("ORDERS")
        assert (queue.exists, queue.pending, queue.messages()) == (False, 0, [])
        send(broker, "one", "two", "three")
        assert (queue.exists, queue.pending, queue.enqueued, queue.consumers) == (True, 3, 3, 0)
        with StompClient(broker.stomp_port) as client:
            client.send(
                "SUBSCRIBE\ndestination:/queue/ORDERS\nid:1\nack:client-individual\nactivemq.prefetchSize:1\n\n"
            )
            frame = client.receive()
            assert frame.endswith("one")
            queue.wait_for(consumers=1, in_flight=1, pending=3)
            assert bodies(broker) == ["two", "three"], "what a consumer holds does not wait"
        queue.wait_for(consumers=0, in_flight=0, pending=3)


def test_messages_show_body_properties_and_headers() -> None:
    with Broker() as broker:
        headers = "persistent:true\npriority:7\ncorrelation-id:c-1\nreply-to:/queue/ANSWERS\ntype:order\nshop:north\n"
        send(broker, "hello", headers=headers)
        send(broker, "", headers="content-length:0\n")
        text, octets = broker.queue("ORDERS").messages()
        assert (text.kind, text.body, text.properties) == ("text", "hello", {"shop": "north"})
        assert (text.persistent, text.priority, text.correlation_id, text.message_type) == (True, 7, "c-1", "order")
        assert text.reply_to == "queue://ANSWERS"
        assert (octets.kind, octets.body, octets.persistent) == ("bytes", b"", False)


def test_looking_changes_nothing_and_stops_at_its_limit() -> None:
    with Broker() as broker:
        send(broker, *(str(number) for number in range(10)))
        assert [message.body for message in broker.queue("ORDERS").messages(limit=3)] == ["0", "1", "2"]
        assert bodies(broker) == [str(number) for number in range(10)]
        assert broker.queue("ORDERS").dequeued == 0


def test_purge_drops_what_waits_and_leaves_what_consumers_hold() -> None:
    with Broker() as broker:
        send(broker, "one", "two", "three")
        send(broker, "other", queue="BILLS")
        with StompClient(broker.stomp_port) as client:
            client.send(
                "SUBSCRIBE\ndestination:/queue/ORDERS\nid:1\nack:client-individual\nactivemq.prefetchSize:1\n\n"
            )
            client.receive()
            assert broker.queue("ORDERS").purge() == 2
            assert (broker.queue("ORDERS").pending, broker.queue("ORDERS").in_flight) == (1, 1)
        broker.queue("ORDERS").wait_for(in_flight=0)
        assert broker.purge() == 2
        assert [view.pending for view in broker.destinations()] == [0, 0]
        assert broker.queue("NONE").purge() == 0


def test_a_purge_lets_a_sender_go_on_that_waited_for_memory() -> None:
    limit = '[[destination_policy.policy_entries]]\nqueue = ">"\nmemory_limit = "100 kb"\n'
    connector = '[[transport_connectors]]\nuri = "stomp://127.0.0.1:0"\n'
    with Broker(connector + limit) as broker, StompClient(broker.stomp_port) as client:
        sent = 0
        client.wait_at_most(2)  # a broker that is merely slow has answered by then
        with pytest.raises(TimeoutError):
            while sent < 100:
                client.transact("SEND\ndestination:/queue/ORDERS\nreceipt:r\n\n" + "x" * 10_000, "r")
                sent += 1
        assert 0 < sent < 100
        client.wait_at_most(20)  # less than the time after which the broker looks by itself
        assert broker.purge() == sent
        assert "receipt-id:r" in client.receive()
        assert broker.queue("ORDERS").pending == 1


def test_a_broker_with_a_directory_keeps_its_journal_over_a_restart_on_the_same_ports(tmp_path: Path) -> None:
    with Broker(directory=tmp_path / "data") as broker:
        send(broker, *(f"kept {number}" for number in range(3)), headers="persistent:true\n")
        send(broker, "lost")
        before = (broker.port, broker.stomp_port)
        broker.restart()
        assert (broker.port, broker.stomp_port) == before
        assert bodies(broker) == ["kept 0", "kept 1", "kept 2"]
        assert broker.queue("ORDERS").purge() == 3
        broker.restart()
        assert bodies(broker) == []


def test_a_broker_without_a_directory_forgets_whatever_its_configuration_says() -> None:
    with Broker('<broker persistent="true" brokerName="shop"/>', name="other") as broker:
        assert broker.name == "other"
        broker.restart()
        assert broker.destinations() == []


def test_topics_count_too_and_advisories_are_left_out() -> None:
    with Broker() as broker, StompClient(broker.stomp_port) as client:
        client.send("SUBSCRIBE\ndestination:/topic/NEWS\nid:1\n\n")
        broker.topic("NEWS").wait_for(consumers=1)
        client.send("SEND\ndestination:/topic/NEWS\n\nhello")
        assert client.receive().endswith("hello")
        broker.topic("NEWS").wait_for(enqueued=1)
        assert [view.destination for view in broker.destinations()] == ["topic://NEWS"]
        assert broker.topic("NEWS").messages() == []


def test_waiting_for_a_state_that_does_not_come_says_what_is_there() -> None:
    with Broker() as broker:
        send(broker, "one")
        with pytest.raises(
            AssertionError, match=r"queue://ORDERS has not come to pending=0 .*: pending=1, in_flight=0"
        ):
            broker.queue("ORDERS").wait_for(timeout=0.01, pending=0)
        with pytest.raises(AssertionError, match=r"queue://NONE .*: does not exist"):
            broker.queue("NONE").wait_for(timeout=0.01, pending=1)
        with pytest.raises(TypeError, match="'size' is no counter; there are pending, in_flight"):
            broker.queue("ORDERS").wait_for(size=1)


def test_users_can_be_given_without_a_configuration() -> None:
    with Broker(users={"alice": "wonderland"}) as broker:
        with StompClient(broker.stomp_port, login=False) as client:
            client.send("CONNECT\naccept-version:1.2\nhost:x\nlogin:alice\npasscode:wonderland\n\n")
            assert client.receive().startswith("CONNECTED")
            assert [view.user_name for view in broker.connections()] == ["alice"]
        with StompClient(broker.stomp_port, login=False) as client:
            client.send("CONNECT\naccept-version:1.2\nhost:x\nlogin:alice\npasscode:nonsense\n\n")
            assert client.receive().startswith("ERROR")


def test_a_configuration_of_ones_own_moves_to_free_ports_of_the_loopback(tmp_path: Path) -> None:
    path = tmp_path / "activemq.xml"
    connector = '<transportConnector uri="auto+nio://0.0.0.0:61616"/>'
    path.write_text(
        f'<broker brokerName="${{name}}"><transportConnectors>{connector}</transportConnectors></broker>', "utf-8"
    )
    with Broker(path, placeholders={"name": "shop"}) as broker:
        assert (broker.name, broker.host) == ("shop", "127.0.0.1")
        assert broker.port == broker.stomp_port != 61616
        assert (broker.url, broker.stomp_url) == (
            f"tcp://127.0.0.1:{broker.port}",
            f"stomp://127.0.0.1:{broker.port}",
        )


def test_what_stands_in_the_way_of_a_start_is_one_error_and_nothing_stays_behind() -> None:
    before = set(threading.enumerate())
    with Broker() as running:
        port = running.port
        taken = Broker(f'[[transport_connectors]]\nname = "shop"\nuri = "tcp://127.0.0.1:{port}"\n', keep_ports=True)
        with pytest.raises(Exception, match=f"connector shop: cannot listen .*port {port} is in use"):
            taken.start()
        assert not taken.is_running
    assert set(threading.enumerate()) <= before


def test_brokers_of_one_name_do_not_meet() -> None:
    with Broker(name="shop") as first, Broker(name="shop") as second:
        assert (first.vm_url, second.vm_url) == ("vm://shop?create=false", "vm://shop-2?create=false")
        with blocking.connect(second.vm_url) as connection, connection.session() as session:
            session.create_producer("queue://ORDERS").send("hello")
        assert (first.queue("ORDERS").exists, second.queue("ORDERS").pending) == (False, 1)
        first.restart()
        assert first.vm_url == "vm://shop?create=false"


def test_a_broker_that_does_not_run_says_so() -> None:
    broker = Broker()
    for ask in (broker.destinations, broker.connections, broker.purge, broker.queue("Q").view):
        with pytest.raises(IllegalStateError, match=r"broker test-.* does not run; start it first"):
            ask()
    broker.stop()
    assert broker.left_open() == []


def test_a_broker_without_sockets_has_no_stomp_and_its_url_is_the_one_of_this_process() -> None:
    with Broker(sockets=False) as broker:
        assert broker.url == broker.vm_url
        with pytest.raises(IllegalStateError, match="no connector for STOMP"):
            _ = broker.stomp_url
        with pytest.raises(IllegalStateError, match="no connector for openwire"):
            _ = broker.port


def test_clients_that_are_left_open_are_told_and_disconnected() -> None:
    with Broker() as broker:
        client = StompClient(broker.stomp_port)
        (left,) = broker.left_open()
        assert left.protocol.startswith("stomp")
    assert "ERROR" in client.receive()
    assert client.at_end()
    client.close()


def test_after_a_fork_every_call_of_the_child_raises() -> None:
    with Broker() as broker:
        child = os.fork()
        if child == 0:
            os._exit(_refusals([broker.destinations, broker.connections, broker.stop, broker.restart]))
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 4
        assert broker.destinations() == []


def _refusals(calls: list[Callable[[], object]]) -> int:
    """How many calls raised; runs in the child."""
    raised = 0
    for call in calls:
        try:
            call()
        except IllegalStateError as error:
            raised += "after a fork" in str(error)
    return raised


def test_a_start_during_the_stop_of_another_thread_starts_when_that_is_done() -> None:
    with Broker() as broker:
        gate, held = threading.Event(), threading.Event()

        def hold(_: object) -> None:
            held.set()
            gate.wait(20)

        holding = threading.Thread(target=broker._call, args=(hold,))  # its loop stands still: nothing can stop it
        holding.start()
        assert held.wait(20)
        stopping = threading.Thread(target=broker.stop)
        stopping.start()
        assert wait_until(lambda: stopping_has_begun(broker), 20)
        starting = threading.Thread(target=broker.start)
        starting.start()
        gate.set()
        for thread in (holding, stopping, starting):
            thread.join(60)
        assert broker.is_running
        with blocking.connect(broker.url) as connection:
            assert connection.broker_name == broker.name


def stopping_has_begun(broker: Broker) -> bool:
    """Return whether another thread has the lock of starts and stops."""
    free = broker._changing.acquire(blocking=False)
    if free:
        broker._changing.release()
    return not free
