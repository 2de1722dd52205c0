"""The pytest plugin as its users meet it: a project of its own, tested by a pytest in a process of its own."""

from __future__ import annotations

import sys

import pytest

pytest_plugins = ["pytester"]

WITHOUT = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")  # importing Hypothesis takes longer than a test
TIMEOUT_S = 120
STOMP = """
    import socket

    class Client:
        def __init__(self, port):
            self.socket = socket.create_connection(("127.0.0.1", port), 30)
            self.socket.settimeout(30)
            self.transact("CONNECT\\naccept-version:1.2\\nhost:x\\n\\n\\0")

        def transact(self, frame):
            self.socket.sendall(frame.encode())
            answer = b""
            while not answer.endswith(b"\\0") and not answer.endswith(b"\\0\\n"):
                data = self.socket.recv(4096)
                if not data:
                    raise EOFError(answer)
                answer += data
            return answer.decode()

        def send(self, queue, body):
            self.transact(f"SEND\\ndestination:/queue/{queue}\\nreceipt:r\\nshop:north\\n\\n{body}\\0")

        def __enter__(self):
            return self

        def __exit__(self, *error):
            self.socket.close()
"""


def run(pytester: pytest.Pytester, tests: str, *options: str) -> pytest.RunResult:
    """The project's run, without the plugins that this project's own tests use."""
    pytester.makepyfile(stomp_client=STOMP, test_it=tests)
    return pytester.runpytest_subprocess(*WITHOUT, "-p", "no:xdist", *options, timeout=TIMEOUT_S)


def test_pytest_finds_the_plugin_and_shows_its_fixtures(pytester: pytest.Pytester) -> None:
    result = run(pytester, "def test_nothing(): pass", "--fixtures")
    for name in ("broker", "vm_broker", "network", "broker_factory", "network_factory"):
        assert f"\nspanwire_{name} " in result.stdout.str()
    for name in ("broker", "vm_broker", "network", "broker_factory"):
        assert f"\nspanwire_session_{name} " in result.stdout.str()


def test_a_run_that_uses_no_fixture_loads_nothing_of_a_broker(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import sys

        def test_modules():
            loaded = sorted(name for name in sys.modules if name.startswith("spanwire"))
            assert loaded == [
                "spanwire", "spanwire.model", "spanwire.model.errors", "spanwire.registry", "spanwire.testing",
                "spanwire.testing.plugin",
            ]
            assert "asyncio" not in sys.modules or "pytest_timeout" in sys.modules
        """,
    )
    result.assert_outcomes(passed=1)


def test_each_test_gets_a_broker_of_its_own_on_a_free_port(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        from stomp_client import Client

        def test_first(spanwire_broker):
            with Client(spanwire_broker.stomp_port) as client:
                client.send("ORDERS", "hello")
            queue = spanwire_broker.queue("ORDERS")
            queue.wait_for(pending=1, enqueued=1, consumers=0)
            (message,) = queue.messages()
            assert (message.body, message.properties) == ("hello", {"shop": "north"})
            assert spanwire_broker.stomp_url == f"stomp://127.0.0.1:{spanwire_broker.stomp_port}"
            assert spanwire_broker.url == f"tcp://127.0.0.1:{spanwire_broker.port}"

        def test_second(spanwire_broker):
            assert not spanwire_broker.queue("ORDERS").exists
        """,
        "-W",
        "error::pytest.PytestWarning",
    )
    result.assert_outcomes(passed=2)


def test_a_session_shares_a_broker_and_purges_it(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        from stomp_client import Client

        def test_first(spanwire_session_broker):
            with Client(spanwire_session_broker.stomp_port) as client:
                client.send("ORDERS", "hello")

        def test_second(spanwire_session_broker):
            assert spanwire_session_broker.queue("ORDERS").pending == 1
            assert spanwire_session_broker.purge() == 1
            assert spanwire_session_broker.queue("ORDERS").pending == 0
        """,
    )
    result.assert_outcomes(passed=2)


def test_the_factory_makes_brokers_with_a_journal_users_and_a_configuration(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        '''
        import pytest
        from spanwire.model.errors import ConfigurationError
        from stomp_client import Client

        XML = """
        <broker xmlns="http://activemq.apache.org/schema/core" brokerName="shop">
          <destinations><queue physicalName="READY"/></destinations>
          <transportConnectors><transportConnector uri="stomp://0.0.0.0:61613"/></transportConnectors>
        </broker>
        """

        def test_journal(spanwire_broker_factory, tmp_path):
            broker = spanwire_broker_factory(XML, journal=True)
            assert broker.name == "shop" and broker.queue("READY").exists
            assert tmp_path in broker.directory.parents
            with Client(broker.stomp_port) as client:
                client.transact("SEND\\ndestination:/queue/Q\\npersistent:true\\nreceipt:r\\n\\nkept\\0")
            port = broker.stomp_port
            broker.restart()
            assert broker.stomp_port == port
            assert [message.body for message in broker.queue("Q").messages()] == ["kept"]

        def test_users(spanwire_broker_factory):
            broker = spanwire_broker_factory(users={"alice": "wonderland"})
            with pytest.raises((EOFError, ConnectionError)):
                Client(broker.stomp_port).transact("SEND\\ndestination:/queue/Q\\n\\n\\0")

        def test_two(spanwire_broker_factory):
            first, second = spanwire_broker_factory(), spanwire_broker_factory()
            assert first.name != second.name and first.port != second.port

        def test_fault(spanwire_broker_factory):
            with pytest.raises(ConfigurationError, match="activemq.xml:1: .*did you mean persistent"):
                spanwire_broker_factory('<broker persistant="true"/>')
        ''',
    )
    result.assert_outcomes(passed=4)


@pytest.mark.long
def test_the_configuration_can_be_named_in_pytest_ini(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nspanwire_configuration = conf/shop.toml\n")
    conf = pytester.mkdir("conf")
    (conf / "shop.toml").write_text('broker_name = "shop"\n[[destinations]]\nqueue = "READY"\n', "utf-8")
    result = run(
        pytester,
        """
        def test_it(spanwire_broker):
            assert spanwire_broker.name == "shop" and spanwire_broker.queue("READY").exists
        """,
    )
    result.assert_outcomes(passed=1)
    (conf / "shop.toml").write_text('broker_nam = "shop"\n', "utf-8")
    result = run(pytester, "def test_it(spanwire_broker): pass")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["spanwire_broker: *shop.toml:1: unknown * 'broker_nam'; did you mean broker_name?"])


@pytest.mark.parametrize(("option", "value"), [("open_clients", "maybe"), ("report_messages", "-1")])
def test_an_option_that_means_nothing_stops_the_run_in_one_line(
    pytester: pytest.Pytester, option: str, value: str
) -> None:
    pytester.makeini(f"[pytest]\nspanwire_{option} = {value}\n")
    result = run(pytester, "def test_it(): pass")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: spanwire_{option} *"])


FAILING = """
    import pytest
    from stomp_client import Client

    @pytest.fixture
    def filled(spanwire_broker):
        with Client(spanwire_broker.stomp_port) as client:
            for number in range(5):
                client.send("ORDERS", f"order {number}")
        return spanwire_broker

    def test_it(filled, spanwire_session_broker):
        assert filled.queue("ORDERS").pending == 0

    def test_no_broker():
        assert False
"""


def test_the_report_of_a_failed_test_shows_where_every_message_sits(pytester: pytest.Pytester) -> None:
    result = run(pytester, FAILING)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        [
            "*- spanwire <Broker test-* at tcp://127.0.0.1:*> -*",
            "* pending in flight  enqueued  dequeued consumers",
            "queue://ORDERS         5         0         5         0         0",
            "    text 'order 0' ID:* {shop='north'}",
            "    text 'order 2' ID:* {shop='north'}",
            "    … and 2 more",
        ]
    )
    assert result.stdout.str().count("- spanwire <Broker") == 2, "only of the brokers that the test used"


def test_the_report_of_a_network_shows_its_links(pytester: pytest.Pytester) -> None:
    result = run(pytester, "def test_it(spanwire_network):\n    assert False")
    result.stdout.fnmatch_lines(
        [
            "*- spanwire <Broker B at tcp://127.0.0.1:*",
            "no queues, no topics",
            "*- spanwire <Broker A at tcp://127.0.0.1:*",
            "no queues, no topics",
            "link A-B to tcp://127.0.0.1:* is running, 0 destination(s) asked for there, 0 message(s) on the way",
        ]
    )
    result.stdout.no_fnmatch_line("client *")


@pytest.mark.long
def test_pytest_ini_says_how_many_messages_a_report_shows(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nspanwire_report_messages = 0\n")
    result = run(pytester, FAILING)
    result.stdout.fnmatch_lines(["    … and 5 more"])
    result.stdout.no_fnmatch_line("*order 0*")


LEAVING = """
    from stomp_client import Client

    clients = []

    def test_it(spanwire_broker):
        clients.append(Client(spanwire_broker.stomp_port))
"""


def test_a_client_that_a_test_leaves_open_gets_one_line_and_nothing_hangs(pytester: pytest.Pytester) -> None:
    result = run(pytester, LEAVING)
    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(
        [
            "*SpanwireWarning: spanwire_broker: 1 client(s) left open: * (stomp 1.2 from tcp://127.0.0.1:*);"
            " close them, or use `with`"
        ]
    )


@pytest.mark.long
def test_a_client_left_open_can_be_an_error(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nspanwire_open_clients = error\n")
    result = run(pytester, LEAVING)
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["spanwire_broker: 1 client(s) left open: *"])
    result.stdout.no_fnmatch_line("*plugin.py*")


@pytest.mark.long
def test_a_client_left_open_can_be_ignored(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nspanwire_open_clients = ignore\n")
    run(pytester, LEAVING).assert_outcomes(passed=1)


def test_clients_of_the_same_process_need_no_socket(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import asyncio
        from spanwire.client import aio, blocking

        async def converse(url):
            async with aio.connect(url) as connection, connection.session() as session:
                producer = await session.create_producer("queue://ORDERS")
                await producer.send("hello", properties={"number": 1})
                consumer = await session.create_consumer("queue://ORDERS")
                return await consumer.receive(timeout=30)

        def test_asyncio(spanwire_vm_broker):
            message = asyncio.run(converse(spanwire_vm_broker.url))
            assert (message.body, message.properties) == ("hello", {"number": 1})

        def test_blocking(spanwire_session_vm_broker):
            with blocking.connect(spanwire_session_vm_broker.url) as connection, connection.session() as session:
                session.create_producer("queue://ORDERS").send("hello")
            spanwire_session_vm_broker.queue("ORDERS").wait_for(pending=1)

        def test_session(spanwire_session_vm_broker):
            assert spanwire_session_vm_broker.queue("ORDERS").pending == 1
        """,
        "-W",
        "error::pytest.PytestWarning",
    )
    result.assert_outcomes(passed=3)


@pytest.mark.long
def test_clients_of_other_libraries_connect_as_to_any_broker(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import queue
        import stomp

        class Listener(stomp.ConnectionListener):
            def __init__(self):
                self.frames = queue.Queue()

            def on_message(self, frame):
                self.frames.put(frame)

        def test_it(spanwire_broker):
            connection = stomp.Connection([(spanwire_broker.host, spanwire_broker.stomp_port)])
            listener = Listener()
            connection.set_listener("", listener)
            connection.connect(wait=True)
            connection.subscribe("/queue/ORDERS", id="1")
            connection.send("/queue/ORDERS", "hello")
            assert listener.frames.get(timeout=30).body == "hello"
            connection.disconnect()
        """,
    )
    result.assert_outcomes(passed=1)


@pytest.mark.long
def test_networks_are_linked_when_the_test_begins(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        from spanwire.client import blocking

        def pass_on(network, first, last):
            with (
                blocking.connect(network[first].url) as near,
                blocking.connect(network[last].url) as far,
                near.session() as producing,
                far.session() as consuming,
            ):
                consumer = consuming.create_consumer("queue://ORDERS")
                network[first].queue("ORDERS").wait_for(consumers=1)
                producing.create_producer("queue://ORDERS").send("hello")
                assert consumer.receive(timeout=30).body == "hello"

        def test_two(spanwire_network):
            pass_on(spanwire_network, "A", "B")

        def test_shared(spanwire_session_network):
            pass_on(spanwire_session_network, "A", "B")

        def test_three(spanwire_network_factory, tmp_path):
            network = spanwire_network_factory("A->B->C", networkTTL="2", journal=True)
            assert tmp_path in network["B"].directory.parents
            pass_on(network, "A", "C")
        """,
        "-W",
        "error::pytest.PytestWarning",
    )
    result.assert_outcomes(passed=3)


@pytest.mark.long
def test_clients_of_this_process_that_are_left_open_are_named_and_nothing_hangs(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import asyncio
        from spanwire.client import aio, blocking

        left = []

        async def leave(url):
            left.append(await aio.connect(url, client_id="forgetful"))

        def test_asyncio(spanwire_vm_broker):
            asyncio.run(leave(spanwire_vm_broker.url))

        def test_blocking(spanwire_broker):
            left.append(blocking.connect(spanwire_broker.url, client_id="careless"))
        """,
    )
    result.assert_outcomes(passed=2, warnings=2)
    result.stdout.fnmatch_lines(["*: 1 client(s) left open: forgetful *", "*: 1 client(s) left open: careless *"])


@pytest.mark.long
def test_nothing_is_left_for_the_collector_to_warn_of(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONDEVMODE", "1")
    result = run(
        pytester,
        """
        import gc
        from spanwire.client import blocking

        def test_use(spanwire_broker, spanwire_vm_broker, spanwire_network):
            for url in (spanwire_broker.url, spanwire_vm_broker.url, spanwire_network["A"].url):
                with blocking.connect(url) as connection, connection.session() as session:
                    session.create_producer("queue://ORDERS").send("hello")

        def test_collect():
            gc.collect()
        """,
        "-W",
        "error",
    )
    result.assert_outcomes(passed=2)


@pytest.mark.long
def test_a_broker_that_the_test_stopped_is_no_trouble_at_the_end(pytester: pytest.Pytester) -> None:
    result = run(pytester, "def test_it(spanwire_broker):\n    spanwire_broker.stop()\n    assert False")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["the broker is stopped"])


def test_every_worker_of_a_parallel_run_has_brokers_of_its_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest

        @pytest.mark.parametrize("number", range(4))
        def test_it(spanwire_broker, spanwire_session_broker, number):
            assert spanwire_broker.port != spanwire_session_broker.port
        """
    )
    result = pytester.runpytest_subprocess(*WITHOUT, "-n", "2", timeout=TIMEOUT_S)
    result.assert_outcomes(passed=4)


def test_without_pytest_the_package_loads_a_broker_only_when_it_is_asked_for(pytester: pytest.Pytester) -> None:
    program = (
        "import sys, spanwire.testing as t; before = 'spanwire.broker.broker' in sys.modules;"
        " t.Broker; print(before, 'spanwire.broker.broker' in sys.modules, 'pytest' in sys.modules)"
    )
    result = pytester.run(sys.executable, "-c", program, timeout=TIMEOUT_S)
    assert result.outlines == ["False True False"]
