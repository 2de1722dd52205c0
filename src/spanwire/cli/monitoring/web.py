"""``spanwire web`` and ``spanwire metrics``: a broker over HTTP, and metrics without a port.

Both need the extra ``web`` and load the extra by name.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Sequence
from typing import Final, cast

from spanwire import registry
from spanwire.cli.arguments import Parser, log_options, placement
from spanwire.cli.running import control_client, directory_of
from spanwire.extras import install_command
from spanwire.logs.lines import begin_log
from spanwire.management.tables.view_table import rows_of_changes
from spanwire.model.errors import ConfigurationError
from spanwire.service.config.web_mounts import read_mounts

DEFAULT_PORT: Final = 8161  # ActiveMQ's web port
DEFAULT_HOST: Final = "127.0.0.1"
FAILURE: Final = 1
OPEN_METRICS: Final = "application/openmetrics-text; version=1.0.0"
MOUNTS_HELP: Final = (
    "further paths of ActiveMQ's web applications, such as demo=/activemq-web-demo, with commas between"
)
MAX_PORT: Final = 65535
WEB_PACKAGES: Final = ("jinja2", "markupsafe", "prometheus_client", "starlette", "uvicorn")

Serve = Callable[..., None]
Exposition = Callable[..., tuple[bytes, str]]


def web(arguments: Sequence[str]) -> int:
    """Serve metrics and health of a running broker over HTTP until a signal."""
    parser = Parser(
        prog="spanwire web",
        description="Serve metrics and health checks of a running broker over HTTP, in a process of its own.",
    )
    placement(parser)
    parser.option("host", f"address to listen on, {DEFAULT_HOST} without it", DEFAULT_HOST, "HOST")
    parser.whole_number("port", f"port to listen on, {DEFAULT_PORT} without it; 0 for a free one", DEFAULT_PORT)
    parser.add_argument(
        "--allow-anonymous",
        "--allowAnonymous",
        action="store_true",
        help="listen for other machines although the broker has no authentication",
    )
    parser.flag("tls", "serve HTTPS with the key store of <web>, else of the first connector with TLS")
    parser.option("mounts", MOUNTS_HELP, "", "LIST")
    log_options(parser)
    parser.flag("endsWithParent", "end when standard input ends, for a process that starts this command")
    parser.option("standby", "show only that the broker of this name waits for the data directory's lock", "", "NAME")
    options = parser.parse(arguments)
    if options.port > MAX_PORT:
        parser.error(f"{options.port} is no port: the highest is {MAX_PORT}")
    try:
        mounts = read_mounts(str(options.mounts))
    except ValueError as error:
        parser.error(str(error))
    if options.ends_with_parent or options.standby:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a service manager may send the broker's to all processes
    serve = cast(Serve, _loaded(registry.STANDBY_SERVER if options.standby else registry.WEB_SERVER))
    reopen_log = begin_log(str(options.log_level), str(options.log_format), options.log_file)
    if options.standby:
        serve(str(options.standby), directory_of(options), str(options.host), int(options.port))
        return 0
    serve(
        directory_of(options),
        str(options.host),
        int(options.port),
        allow_anonymous=bool(options.allow_anonymous),
        ends_with_parent=bool(options.ends_with_parent),
        with_tls=bool(options.tls),
        mounts=mounts,
        reopen_log=reopen_log if options.log_file else None,
    )
    return 0


def metrics(arguments: Sequence[str]) -> int:
    """Print the metrics of a running broker."""
    parser = Parser(
        prog="spanwire metrics",
        description="Print the metrics of a running broker in OpenMetrics, as GET /metrics of spanwire web.",
    )
    placement(parser)
    parser.add_argument("--all", action="store_true", help="all destinations, not the 100 busiest ones")
    options = parser.parse(arguments)
    exposition = cast(Exposition, _loaded(registry.WEB_METRICS))
    client = control_client(options)
    arguments_of_all = {"busiest": None} if options.all else {}
    text, _ = exposition(
        client.ask("summary"), rows_of_changes(client.ask("changes", since=None)), OPEN_METRICS, **arguments_of_all
    )
    sys.stdout.write(text.decode("utf-8"))
    return 0


def _loaded(reference: str) -> object:
    """Return an object of the web package. Raises `ConfigurationError` without the extra."""
    try:
        return registry.load(reference)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in WEB_PACKAGES:
            raise
        raise ConfigurationError(f"the extra web is not installed: {install_command('web')}") from error
