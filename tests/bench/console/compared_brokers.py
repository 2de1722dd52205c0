"""The brokers of `tests.bench.console.comparison`: each with a console, 120 queues, messages, consumer, dead letters.

Each of them is a context that gives the address of the first page, and a function that fills the queue for a task.
"""

from __future__ import annotations

import shutil
import signal
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from tests.bench.console.filled_broker import PASSWORD, USER, Filled
from tests.service.started import TIMEOUT_S, StompClient
from tests.support.announcing_process import AnnouncingProcess
from tests.support.distributions import CLASSIC, find_destination
from tests.support.ports import free_port
from tests.support.rabbitmq import RabbitProcess

QUEUES: Final = 120
QUEUE: Final = "shop.077.orders"
TARGET: Final = "held.orders"
DEAD: Final = "shop.dead"
MESSAGES: Final = 20
DEAD_LETTERS: Final = 2
INSIDE: Final = """\
  <plugins><simpleAuthenticationPlugin><users>
    <authenticationUser username="anna" password="a-4711" groups="admins"/>
  </users></simpleAuthenticationPlugin></plugins>
  <web port="0"/>
"""
CLASSIC_BROKER: Final = """\
<beans xmlns="http://www.springframework.org/schema/beans" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
  xsi:schemaLocation="http://www.springframework.org/schema/beans
  http://www.springframework.org/schema/beans/spring-beans.xsd
  http://activemq.apache.org/schema/core http://activemq.apache.org/schema/core/activemq-core.xsd">
  <bean class="org.springframework.beans.factory.config.PropertyPlaceholderConfigurer"/>
  <broker xmlns="http://activemq.apache.org/schema/core" brokerName="localhost" dataDirectory="{data}">
    <managementContext><managementContext createConnector="false"/></managementContext>
    <persistenceAdapter><kahaDB directory="{data}/kahadb"/></persistenceAdapter>
    <transportConnectors><transportConnector name="stomp" uri="stomp://127.0.0.1:{stomp}"/></transportConnectors>
  </broker>
  <import resource="jetty.xml"/>
</beans>
"""

Fill = Callable[[], None]


def client_of(port: int, login: str) -> StompClient:
    """A client of a broker."""
    client = StompClient(port, login=False)
    client.send(f"CONNECT\naccept-version:1.2\nhost:/\n{login}\n")
    assert client.receive().startswith("CONNECTED")
    return client


def send(client: StompClient, queue: str, count: int) -> None:
    """Send messages with a number."""
    for number in range(count):
        body = f'{{"order": {number}, "shop": "berlin"}}'
        client.transact(f"SEND\ndestination:/queue/{queue}\npersistent:true\nnumber:{number}\nreceipt:r\n\n{body}", "r")


def fill(port: int, login: str, prefetch: str, has_dead_letters: bool, kept: list[StompClient]) -> None:
    """All queues and a consumer at the first time; later the messages that tasks have taken away."""
    with client_of(port, login) as client:
        if not kept:
            for number in range(QUEUES):
                send(client, f"shop.{number:03}.orders", 1)
            kept.append(client_of(port, login))
            kept[0].send(f"SUBSCRIBE\nid:1\ndestination:/queue/{QUEUE}\nack:client-individual\n{prefetch}\n\n")
            kept[0].receive()
        send(client, QUEUE, MESSAGES)
        send(client, TARGET, 1)
        if has_dead_letters:
            send(client, DEAD, DEAD_LETTERS)
            with client_of(port, login) as consumer:
                consumer.send(f"SUBSCRIBE\nid:1\ndestination:/queue/{DEAD}\nack:client-individual\n\n")
                for _ in range(DEAD_LETTERS):
                    lines = consumer.receive().split("\n")
                    mark = next(line.partition(":")[2] for line in lines if line.startswith("ack:"))
                    consumer.send(f"NACK\nid:{mark}\n\n")
                consumer.send("DISCONNECT\nreceipt:u\n\n")
                while "receipt-id:u" not in consumer.receive():  # what the last round has sent back comes, too
                    pass


@contextmanager
def spanwire(directory: Path) -> Iterator[tuple[str, Fill]]:
    """Spanwire, of the build that runs this."""
    with Filled(directory, inside=INSIDE) as broker:
        kept: list[StompClient] = []
        login = f"login:{USER}\npasscode:{PASSWORD}\n"
        prefetch = "activemq.prefetchSize:1"
        yield broker.web_address(), partial(fill, broker.ports["stomp"], login, prefetch, True, kept)


@contextmanager
def activemq(directory: Path) -> Iterator[tuple[str, Fill]]:
    """ActiveMQ Classic as Maven Central has it, with its console and its files of users; Debian's has no console."""
    home = find_destination(CLASSIC)
    if isinstance(home, str):
        raise SystemExit(home)
    stomp, web = free_port(), free_port()
    shutil.copytree(home / "conf", directory / "conf")
    jetty = (
        (home / "conf" / "jetty.xml")
        .read_text("utf-8")
        .replace('name="port" value="8161"', f'name="port" value="{web}"')
    )
    (directory / "conf" / "jetty.xml").write_text(jetty, "utf-8")
    text = CLASSIC_BROKER.replace("{data}", str(directory / "data")).replace("{stomp}", str(stomp))
    (directory / "conf" / "activemq.xml").write_text(text, "utf-8")
    (directory / "tmp").mkdir()
    command = [
        "java", "-Xmx512m", f"-Djava.io.tmpdir={directory / 'tmp'}", f"-Dactivemq.home={home}",
        f"-Dactivemq.base={directory}", f"-Dactivemq.conf={directory / 'conf'}",
        f"-Dactivemq.data={directory / 'data'}",
        "-jar", str(home / "bin" / "activemq.jar"), "start", f"xbean:file:{directory / 'conf' / 'activemq.xml'}",
    ]  # fmt: skip
    log: list[str] = []
    process = AnnouncingProcess(command, directory, log)
    process.wait_until(lambda line: "ActiveMQ Jolokia REST API available" in line, 3 * TIMEOUT_S)
    kept: list[StompClient] = []
    try:
        yield f"http://127.0.0.1:{web}/admin/", partial(fill, stomp, "", "activemq.prefetchSize:1", True, kept)
    finally:
        process.end(signal.SIGTERM)


class WithConsole(RabbitProcess):
    """A node with its management plug-in."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.directory: Final = directory
        self.web_port: Final = free_port()

    def start(self) -> None:
        """Return when the console answers."""
        plugins = "[rabbitmq_stomp,rabbitmq_amqp1_0,rabbitmq_management,rabbitmq_shovel,rabbitmq_shovel_management].\n"
        (self.directory / "enabled_plugins").write_text(plugins, encoding="utf-8")
        with (self.directory / "rabbitmq.conf").open("a", encoding="utf-8") as file:
            file.write(f"management.tcp.ip = 127.0.0.1\nmanagement.tcp.port = {self.web_port}\n")
        super().start()
        urllib.request.urlopen(f"http://127.0.0.1:{self.web_port}/", timeout=TIMEOUT_S).close()


@contextmanager
def rabbitmq(directory: Path) -> Iterator[tuple[str, Fill]]:
    """RabbitMQ as Debian packages it, with the plug-ins for its console and for moving messages."""
    with WithConsole(directory) as node:
        kept: list[StompClient] = []
        login = "login:guest\npasscode:guest\n"
        yield (
            f"http://127.0.0.1:{node.web_port}/",
            partial(fill, node.stomp_port, login, "prefetch-count:1", False, kept),
        )
