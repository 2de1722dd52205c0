"""``spanwire service --print``: prints a systemd unit for a broker, or for the routes of a pipeline."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, cast

from spanwire import registry
from spanwire.cli.arguments import Parser
from spanwire.model.errors import ConfigurationError

BROKER: Final = "broker"
PIPELINES: Final = "pipelines"
PARSERS: Final = {  # of the arguments behind "--"
    BROKER: "spanwire.cli.process.start:start_parser",
    PIPELINES: "spanwire.cli.pipeline.pipeline:route_parser",
}
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
USER: Final = re.compile(r"[a-z_][a-z0-9_-]{0,30}")
STATE_ROOT: Final = Path("/var/lib")  # systemd makes state directories there
PRIVATE_PLACES: Final = (Path("/home"), Path("/root"), Path("/run/user"))  # those that ProtectHome hides
PLAIN: Final = re.compile(r"[A-Za-z0-9_@+=:,./-]+")

UNIT: Final = """\
[Unit]
Description={description}
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=10min
StartLimitBurst=10

[Service]
{process}
Restart=on-failure
RestartSec=5s
RestartPreventExitStatus=2
KillSignal=SIGTERM
KillMode=mixed
User={user}
{directories}
RuntimeDirectory={name}
RuntimeDirectoryMode=0700
Environment=XDG_RUNTIME_DIR=%t/{name}
EnvironmentFile=-/etc/{name}/environment
LimitNOFILE=16384
LimitCORE=0
UMask=0077

CapabilityBoundingSet=
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome={home}
PrivateTmp=yes
PrivateDevices=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
RemoveIPC=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged
SystemCallErrorNumber=EPERM
{memory}
[Install]
WantedBy=multi-user.target
"""
BROKER_PROCESS: Final = """\
Type=notify
NotifyAccess=main
ExecStart={start}
ExecReload={reload}
TimeoutStartSec=1h
TimeoutStopSec=60s
WatchdogSec=60s
Environment=PYTHONFAULTHANDLER=1"""
PIPELINE_PROCESS: Final = """\
Type=exec
ExecStart={start}
TimeoutStopSec=2min"""
WITHOUT_JAVA: Final = """\
MemoryDenyWriteExecute=yes
ProcSubset=pid
"""


def run(arguments: Sequence[str]) -> int:
    """Print the unit."""
    words = list(arguments)
    own, further = (words, []) if "--" not in words else (words[: words.index("--")], words[words.index("--") + 1 :])
    parser = Parser(
        prog="spanwire service",
        description="Print a systemd unit. Write it to /etc/systemd/system/NAME.service. Arguments behind -- are for\n"
        "spanwire start or spanwire pipeline run, such as -- --web.",
    )
    parser.add_argument(
        "--print",
        nargs="?",
        const=BROKER,
        choices=(BROKER, PIPELINES),
        required=True,
        help="print the unit of a broker, which is the default, or of the routes of a pipeline",
    )
    parser.add_argument(
        "--configuration", type=Path, metavar="FILE", help="the file of the broker, or the routes of the pipeline"
    )
    parser.option("name", "the name of the unit and of its directories", "spanwire", "NAME")
    parser.option("user", "the user that the process runs as", "spanwire", "USER")
    parser.add_argument(
        "--data-directory",
        "--dataDirectory",
        type=Path,
        metavar="DIRECTORY",
        help="where the broker or the pipeline stores its data; by default /var/lib/NAME",
    )
    options = parser.parse(own)
    _check(options)
    if options.print == PIPELINES and options.configuration is None:
        raise ConfigurationError("a pipeline has routes: give --configuration FILE")
    make = cast("Callable[[], Parser]", registry.load(PARSERS[str(options.print)]))
    sys.stdout.write(_unit(options, make(), further))
    return 0


def _check(options: argparse.Namespace) -> None:
    """Raise `ConfigurationError` for a name that a unit or the system would refuse."""
    for option, value, pattern in (("--name", options.name, NAME), ("--user", options.user, USER)):
        if not pattern.fullmatch(value):
            raise ConfigurationError(f"{option} {value[:60]!r}: write letters, digits, '.', '_' and '-' only")


def _unit(options: argparse.Namespace, parser: Parser, further: list[str]) -> str:
    """Return the text of a unit. Exits with status 2 if ``parser`` refuses the ``further`` arguments."""
    name, is_broker = str(options.name), options.print == BROKER
    file: Path | None = None if options.configuration is None else options.configuration.absolute()
    data = Path(options.data_directory or STATE_ROOT / name).absolute()
    words = ["start"] if is_broker else ["pipeline", "run"]
    if file is not None:
        words.append(str(file))
    words += ["--data-directory", str(data)] if is_broker else ["--state", str(data)]
    words += further
    parsed = parser.parse(words[1 if is_broker else 2 :])
    has_java = not is_broker or parsed.jars is not None
    python = [sys.executable, "-m", "spanwire"]
    process = (BROKER_PROCESS if is_broker else PIPELINE_PROCESS).format(
        start=_line([*python, *words]), reload=_line([*python, "reload", "--data-directory", str(data)])
    )
    return UNIT.format(
        description=f"Spanwire {'broker' if is_broker else 'pipeline'} {name}",
        process=process,
        user=options.user,
        name=name,
        directories=_directories(data),
        home="read-only" if _is_private([*_python_places(), file, data]) else "yes",
        memory="" if has_java else WITHOUT_JAVA,
    )


def _python_places() -> list[Path]:
    """Return the places of this Python; one of uv or pyenv is in a home, also when its virtual environment is not."""
    return [Path(sys.executable), Path(sys.prefix), Path(sys.base_prefix)]


def _directories(data: Path) -> str:
    """Return the directives to make the data directory, or to make another directory writable."""
    if data.is_relative_to(STATE_ROOT) and data != STATE_ROOT:
        state = _line([str(data.relative_to(STATE_ROOT))])
        return f"StateDirectory={state}\nStateDirectoryMode=0700\nWorkingDirectory={_path(data)}"
    return f"ReadWritePaths={_line([str(data)])}\nWorkingDirectory={_path(data)}"


def _is_private(paths: Sequence[Path | None]) -> bool:
    """Return True for a path below a directory hidden by ProtectHome."""
    return any(path.is_relative_to(place) for path in paths if path is not None for place in PRIVATE_PLACES)


def _path(path: Path) -> str:
    """Return a path for a directive with a single value up to the end of the line."""
    _refuse_control_characters(str(path))
    return str(path).replace("%", "%%")


def _line(words: Sequence[str]) -> str:
    """Return a command line in systemd's quotes (systemd.service(5), "Command lines")."""
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    if PLAIN.fullmatch(word):
        return word
    _refuse_control_characters(word)
    text = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{text}"'


def _refuse_control_characters(text: str) -> None:
    if not text.isprintable():
        raise ConfigurationError(f"{text[:60]!r} has a character that a unit cannot hold")
