"""pytest plugin: brokers and networks as fixtures.

    def test_orders(spanwire_broker):
        connection = blocking.connect(spanwire_broker.url)

Options of ``pytest.ini``: ``spanwire_configuration``, ``spanwire_open_clients``, ``spanwire_report_messages``. pytest
imports the plugin in every run by its entry point, so the broker is loaded with the first fixture only.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import pytest

from spanwire import registry
from spanwire.model.errors import SpanwireError

if TYPE_CHECKING:
    import pluggy

    from spanwire.broker.admin.views import ConnectionView
    from spanwire.testing.broker import Broker
    from spanwire.testing.network import Network

BROKER: Final = "spanwire.testing.broker:Broker"
NETWORK: Final = "spanwire.testing.network:Network"
DESCRIBE: Final = "spanwire.testing.report:describe"
CLIENT_LINE: Final = "spanwire.testing.report:client_line"
WARN: Final = "warn"
ERROR: Final = "error"
IGNORE: Final = "ignore"
DEFAULT_MESSAGES: Final = "3"  # messages of each queue in a report


class SpanwireWarning(pytest.PytestWarning):
    """A test left clients open."""


class Brokers:
    """Starts the brokers of one fixture, describes the brokers in reports, and stops all at the end."""

    def __init__(self, request: pytest.FixtureRequest, directory: Callable[[], Path]) -> None:
        self.fixture: Final = str(request.fixturename)
        self.brokers: Final[list[Broker]] = []
        self._request: Final = request
        self._directory: Final = directory
        self._numbers: Final = itertools.count(1)

    def __call__(self, source: object = None, *, journal: bool = False, **options: object) -> Broker:
        """Start a broker.

        Arguments:
            source: Configuration, as of `spanwire.testing.Broker`.
            journal: Keep messages in a directory of the test.
            options: Further arguments of `spanwire.testing.Broker`.
        """
        if journal:
            options.setdefault("directory", self._directory() / f"spanwire-{next(self._numbers)}")
        make = cast("Callable[..., Broker]", registry.load(BROKER))
        broker = make(source, **options)
        broker.start()
        self.brokers.append(broker)
        return broker

    def network(self, links: str = "A->B", *, journal: bool = False, **attributes: str) -> Network:
        """Start linked brokers, as `spanwire.testing.Network`."""
        make = cast("Callable[..., Network]", registry.load(NETWORK))
        directory = self._directory() / f"spanwire-{next(self._numbers)}" if journal else None
        network = make(links, directory=directory, **attributes)
        network.start()
        self.brokers.extend(network.brokers)
        return network

    def close(self) -> None:
        """Stop all brokers, the last one first, and report clients that are still connected."""
        open_clients: list[str] = []
        errors: list[str] = []
        line = cast("Callable[[ConnectionView], str]", registry.load(CLIENT_LINE)) if self.brokers else None
        for broker in reversed(self.brokers):
            try:
                if line is not None:
                    open_clients += [line(view) for view in broker.left_open()]
            except SpanwireError as error:
                errors.append(f"{broker.name}: {error}")
            try:
                broker.stop()
            except SpanwireError as error:
                errors.append(f"{broker.name}: {error}")
        if errors:
            pytest.fail(f"{self.fixture}: a broker did not stop: {'; '.join(errors)}", pytrace=False)
        if open_clients:
            self._report_open_clients(open_clients)

    def _report_open_clients(self, clients: list[str]) -> None:
        wish = str(self._request.config.getini("spanwire_open_clients"))
        text = f"{self.fixture}: {len(clients)} client(s) left open: {'; '.join(clients)}; close them, or use `with`"
        if wish == ERROR:
            pytest.fail(text, pytrace=False)
        if wish != IGNORE:
            self._request.node.warn(SpanwireWarning(text))


LIVE: Final = pytest.StashKey[list[Brokers]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options of ``pytest.ini``."""
    parser.addini(
        "spanwire_configuration", "activemq.xml or TOML of spanwire_broker, from the root directory", default=""
    )
    parser.addini("spanwire_open_clients", "a test leaves a client open: warn, error or ignore", default=WARN)
    parser.addini(
        "spanwire_report_messages", "messages of each queue in a failed test's report", default=DEFAULT_MESSAGES
    )


def pytest_configure(config: pytest.Config) -> None:
    """Reject invalid option values."""
    wish = config.getini("spanwire_open_clients")
    if wish not in (WARN, ERROR, IGNORE):
        raise pytest.UsageError(f"spanwire_open_clients is {wish!r}; write warn, error or ignore")
    if not str(config.getini("spanwire_report_messages")).isdigit():
        raise pytest.UsageError("spanwire_report_messages must be a number, 0 for none")
    config.stash[LIVE] = []


@pytest.hookimpl(hookwrapper=True)  # `wrapper` would break every run of a pytest before 8
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pluggy.Result[pytest.TestReport], None]:
    """Describe the brokers in the report of a failed test."""
    outcome = yield
    report = outcome.get_result()
    if report.failed and call.when != "teardown":
        names = getattr(item, "fixturenames", ())
        count = int(item.config.getini("spanwire_report_messages"))
        for brokers in item.config.stash[LIVE]:
            if brokers.fixture in names:
                describe = cast("Callable[[Broker, int], str]", registry.load(DESCRIBE))
                for broker in brokers.brokers:
                    report.sections.append((f"spanwire {broker!r}", describe(broker, count)))


@contextmanager
def _brokers(request: pytest.FixtureRequest, directory: Callable[[], Path]) -> Iterator[Brokers]:
    brokers = Brokers(request, directory)
    live = request.config.stash[LIVE]
    live.append(brokers)
    try:
        yield brokers
    finally:
        live.remove(brokers)
        brokers.close()


def _session_directory(factory: pytest.TempPathFactory) -> Path:
    return factory.mktemp("spanwire")


def _configured(request: pytest.FixtureRequest, brokers: Brokers, sockets: bool = True) -> Broker:
    """Start a broker with the configuration of ``pytest.ini``, or with the default configuration."""
    name = str(request.config.getini("spanwire_configuration"))
    try:
        return brokers(request.config.rootpath / name if name else None, sockets=sockets)
    except SpanwireError as error:
        pytest.fail(f"{brokers.fixture}: {error}", pytrace=False)


@pytest.fixture
def spanwire_broker_factory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Brokers]:
    """Function that starts brokers of any configuration; all are stopped after the test."""
    with _brokers(request, lambda: tmp_path) as brokers:
        yield brokers


@pytest.fixture(scope="session")
def spanwire_session_broker_factory(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Brokers]:
    """Function that starts brokers for the rest of the session."""
    with _brokers(request, lambda: _session_directory(tmp_path_factory)) as brokers:
        yield brokers


@pytest.fixture
def spanwire_broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    """Broker of one test, on free ports of the loopback, with messages in memory."""
    with _brokers(request, lambda: tmp_path) as brokers:
        yield _configured(request, brokers)


@pytest.fixture(scope="session")
def spanwire_session_broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    """Broker of all tests of a session, on free ports of the loopback; `Broker.purge` empties its queues."""
    with _brokers(request, lambda: _session_directory(tmp_path_factory)) as brokers:
        yield _configured(request, brokers)


@pytest.fixture
def spanwire_vm_broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    """Broker of one test without sockets: clients of this process connect to its ``vm:`` URL."""
    with _brokers(request, lambda: tmp_path) as brokers:
        yield _configured(request, brokers, sockets=False)


@pytest.fixture(scope="session")
def spanwire_session_vm_broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    """Broker of all tests of a session without sockets."""
    with _brokers(request, lambda: _session_directory(tmp_path_factory)) as brokers:
        yield _configured(request, brokers, sockets=False)


@pytest.fixture
def spanwire_network(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Network]:
    """Two brokers of one test, A and B: messages sent to A reach consumers at B."""
    with _brokers(request, lambda: tmp_path) as brokers:
        yield brokers.network()


@pytest.fixture(scope="session")
def spanwire_session_network(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Network]:
    """Two brokers of all tests of a session, A and B."""
    with _brokers(request, lambda: _session_directory(tmp_path_factory)) as brokers:
        yield brokers.network()


@pytest.fixture
def spanwire_network_factory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Network]]:
    """Function that starts networks of any shape: ``spanwire_network_factory("A->B->C", networkTTL="2")``."""
    with _brokers(request, lambda: tmp_path) as brokers:
        yield brokers.network
