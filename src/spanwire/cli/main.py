"""Entry point of ``spanwire COMMAND …``: finds the command's module and runs the command.

A `SpanwireError` becomes one line and status 1.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Final, cast

from spanwire import registry
from spanwire._build import version_text
from spanwire.documents.spelling import suggestion
from spanwire.model.errors import SpanwireError
from spanwire.model.text import printable

FAILURE: Final = 1
USAGE_ERROR: Final = 2
INTERRUPTED: Final = 130  # a shell's status of a command that Ctrl-C ended

COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "start": ("spanwire.cli.process.start:run", "start a broker in the foreground"),
    "create": ("spanwire.cli.process.create:run", "create a directory for a further broker of this machine"),
    "list": ("spanwire.cli.process.list:run", "list the running brokers of this user"),
    "stop": ("spanwire.cli.process.stop:run", "stop a running broker in order"),
    "restart": ("spanwire.cli.process.restart:run", "stop a running broker in order and start it again"),
    "reload": ("spanwire.cli.process.reload:run", "let a running broker reload its configuration"),
    "log-level": ("spanwire.cli.process.log_level:run", "show or set levels of loggers of a running broker"),
    "status": (
        "spanwire.cli.process.status:run",
        "show uptime, connectors, links, memory, store and disk of a broker",
    ),
    "why": ("spanwire.cli.monitoring.why:run", "explain why a message, queue, subscription or link does not move"),
    "trace": ("spanwire.cli.monitoring.trace:run", "follow messages live through a broker and its network"),
    "audit": ("spanwire.cli.monitoring.audit:run", "show whether all messages that came are accounted for"),
    "health": ("spanwire.cli.monitoring.health:run", "judge a running broker, with the exit codes of Nagios plug-ins"),
    "doctor": (
        "spanwire.cli.monitoring.doctor:run",
        "judge a machine and a configuration before the first start",
    ),
    "top": ("spanwire.cli.top.command:run", "watch a running broker on the whole screen"),
    "metrics": ("spanwire.cli.monitoring.web:metrics", "print the metrics of a running broker in OpenMetrics"),
    "web": ("spanwire.cli.monitoring.web:web", "serve metrics and health of a running broker over HTTP"),
    "connector": ("spanwire.cli.process.connector:run", "list, start or stop the addresses that a broker listens on"),
    "dstat": ("spanwire.cli.messages.dstat:run", "counters of the queues and topics"),
    "bstat": ("spanwire.cli.messages.query:bstat", "statistics of the broker, its connections and destinations"),
    "query": ("spanwire.cli.messages.query:run", "attributes of the broker's objects, chosen by type and name"),
    "queue": ("spanwire.cli.management.nouns:queue", "list queues; create, purge, move, pause, delete them and more"),
    "topic": ("spanwire.cli.management.nouns:topic", "list topics; create, delete them, send to them"),
    "subscription": (
        "spanwire.cli.management.nouns:subscription",
        "list durable subscriptions with their backlog; create or remove one",
    ),
    "connection": ("spanwire.cli.management.nouns:connection", "list connected clients, or disconnect one"),
    "job": ("spanwire.cli.management.nouns:job", "list scheduled messages, or remove one"),
    "task": ("spanwire.cli.management.nouns:task", "list moves and other long operations; cancel, resume or undo one"),
    "link": ("spanwire.cli.management.nouns:link", "list the links of the network; start or stop them"),
    "definitions": (
        "spanwire.cli.management.definitions:run",
        "export, import and compare what brokers consist of, without messages",
    ),
    "purge": ("spanwire.cli.messages.purge:run", "remove pending messages of queues, all or by a selector"),
    "pause": ("spanwire.cli.messages.pause:pause", "stop the dispatch of queues for a while"),
    "resume": ("spanwire.cli.messages.pause:resume", "let paused queues dispatch again"),
    "dlq": ("spanwire.cli.management.dead_letters:run", "retry: send dead letters back to their original destinations"),
    "delete": ("spanwire.cli.messages.delete:delete", "delete empty queues or topics"),
    "disconnect": ("spanwire.cli.messages.delete:disconnect", "close the connections of a client"),
    "producer": ("spanwire.cli.messages.producer:run", "send messages; list producers of clients"),
    "consumer": ("spanwire.cli.messages.consumer:run", "receive messages; list consumers of clients, or end one"),
    "bench": ("spanwire.cli.bench.command:run", "load brokers, and compare rates and percentiles of latencies"),
    "browse": ("spanwire.cli.messages.browse:run", "show the messages of a queue without removing them"),
    "network": (
        "spanwire.cli.network.network:run",
        "check a network's files, show its routes and links",
    ),
    "drain": ("spanwire.cli.network.drain:run", "send all messages of a broker's queues to another broker"),
    "rebalance": ("spanwire.cli.network.rebalance:run", "share what waits in a queue with other brokers"),
    "bridge": ("spanwire.cli.bridges.bridge:run", "forward messages between destinations of any two brokers"),
    "transaction": (
        "spanwire.cli.bridges.transaction:run",
        "list, commit or roll back prepared branches of distributed transactions",
    ),
    "pipeline": ("spanwire.cli.pipeline.pipeline:run", "move, filter, archive and replay messages with Spark"),
    "store": ("spanwire.cli.process.store:run", "check, repair, export or import the store of a broker"),
    "config": ("spanwire.cli.process.config:run", "check a configuration without starting a broker"),
    "service": ("spanwire.cli.process.service:run", "print a systemd unit for a broker or a pipeline"),
    "encrypt": ("spanwire.cli.process.encrypt:encrypt", "encrypt a password for a configuration"),
    "decrypt": ("spanwire.cli.process.encrypt:decrypt", "show an encrypted password of a configuration"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if registry.COMPLETING in os.environ:
        words = cast("Callable[[Iterable[str]], list[str]]", registry.load(registry.COMPLETED_WORDS))(COMMANDS)
    if words[-1:] == ["-?"]:  # as in ActiveMQ's script
        words[-1] = "--help"
    if not words or words[0] in ("-h", "--help", "help"):
        sys.stdout.write(_overview())
        return 0
    if words[0] in ("--version", "-V", "version"):
        sys.stdout.write(version_text() + "\n")
        return 0
    command = COMMANDS.get(words[0])
    if command is None:
        hint = suggestion(words[0], COMMANDS, ", ", 0)
        sys.stderr.write(f"spanwire: unknown command {words[0][:60]!r}{hint}; spanwire --help lists them\n")
        return USAGE_ERROR
    run = _loaded(command[0], is_whole_process=arguments is None)
    try:
        return run(words[1:])
    except SpanwireError as error:
        for line in str(error).splitlines():
            text = line.removeprefix("spanwire: ")  # errors that Spark shows begin with it
            sys.stderr.write(f"spanwire {words[0]}: {printable(text)}\n")
        return FAILURE
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader is gone; discard further output
        return FAILURE
    except KeyboardInterrupt:
        return INTERRUPTED


def activemq() -> int:
    """Run the command ``activemq``: the same commands, and the words of ActiveMQ's script for a start.

    ``activemq`` and ``activemq console`` start a broker in the foreground.
    """
    words = sys.argv[1:]
    if not words or words[0] == "console":
        words = ["start", *words[1:]]
    return main(words)


def _loaded(reference: str, is_whole_process: bool) -> Callable[[Sequence[str]], int]:
    """Load the function of a command.

    Loaded modules stay until the end of the process. So a command with a process of its own never searches modules for
    garbage: the searches took a tenth of a broker's start.
    """
    if not is_whole_process:
        return cast(Callable[[Sequence[str]], int], registry.load(reference))
    gc.disable()
    run = cast(Callable[[Sequence[str]], int], registry.load(reference))
    gc.freeze()
    gc.enable()
    return run


def _overview() -> str:
    lines = ["usage: spanwire COMMAND [OPTIONS]", "", "commands:"]
    lines += [f"  {name:<13} {text}" for name, (_, text) in COMMANDS.items()]
    lines += ["", "spanwire COMMAND --help shows the options of a command, spanwire --version the build.", ""]
    return "\n".join(lines)
