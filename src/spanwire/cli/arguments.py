"""Command lines: options in two spellings, with a proposal for an unknown option.

ActiveMQ's tools spell ``--brokerUrl``; ``--broker-url`` is equivalent. A boolean option stands alone or has the value
true or false.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NoReturn, cast

from spanwire import registry
from spanwire._build import version_text
from spanwire.documents.spelling import suggestion

USAGE_ERROR: Final = 2
VERSION: Final = "--version"
CONFIGURATION_VARIABLE: Final = "SPANWIRE_CONFIGURATION"
LOG_LEVELS: Final = ("debug", "info", "warning", "error")
LOG_FORMATS: Final = ("text", "json")

NO_JMX: Final = "there is no JMX; name the broker by its name, file or data directory, or ask its HTTP API"
BY_NAME: Final = "name the broker by its name, file or data directory"
NO_CLASS: Final = "no Java class is loaded; write --user and --password, or a URL with jms.userName"
SEVERAL: Final = "use spanwire connector stop, spanwire drain and then spanwire stop"
FOREIGN: Final = {
    **dict.fromkeys(("jmxurl", "jmxuser", "jmxpassword", "jmxlocal"), NO_JMX),
    **dict.fromkeys(("pid", "localprocessid"), BY_NAME),
    **dict.fromkeys(("factory", "passwordfactory"), NO_CLASS),
    **dict.fromkeys(("connectorname", "queuename", "pollinterval"), SEVERAL),
    "xmsgsel": "write --msgsel 'NOT (…)'",
    "objname": "use spanwire query --objname",
    "view": "use spanwire query --view",
    "extdir": "there are no extension directories; Python packages are installed with pip",
}
"""Options of ActiveMQ's script that a command does not have, with what stands for them."""

Command = Callable[[Sequence[str]], int]  # takes the arguments behind its name and returns the exit status


def offer_actions(program: str, arguments: Sequence[str], names: Iterable[str]) -> None:
    """Complete the first argument from ``names`` on the request of a shell, and end the process then."""
    if registry.COMPLETING in os.environ and not arguments:
        complete = cast("Callable[[str, Iterable[str]], None]", registry.load(registry.COMPLETE_ACTION))
        complete(program, names)


def run_command(program: str, arguments: Sequence[str], commands: Mapping[str, tuple[Command, str]]) -> int:
    """Run the command named by the first argument and return its exit status, or show all commands.

    ``commands`` are the commands by name, with their lines of the help. An unknown name has status 2.
    """
    words = list(arguments)
    offer_actions(program, words, commands)
    if not words or words[0] in ("-h", "--help", "help"):
        width = max(map(len, commands)) + 1
        usage = [f"usage: {program} COMMAND [OPTIONS]", "", "commands:"]
        usage += [f"  {name:<{width}} {text}" for name, (_, text) in commands.items()]
        sys.stdout.write("\n".join([*usage, "", f"{program} COMMAND --help shows its options.", ""]))
        raise SystemExit(0)
    if words[0] not in commands:
        hint = suggestion(words[0], commands)
        sys.stderr.write(f"{program}: there is no command {words[0][:60]!r}{hint}\n")
        return USAGE_ERROR
    command, _ = commands[words[0]]
    return command(words[1:])


class Parser(argparse.ArgumentParser):
    """An argument parser with errors of one line, which name the closest known option."""

    def __init__(self, **settings: object) -> None:
        super().__init__(
            prog=str(settings["prog"]),
            description=str(settings["description"]),
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Return the values of the options; exit with status 2 for an unknown option."""
        if registry.COMPLETING in os.environ:
            complete = cast("Callable[[argparse.ArgumentParser, int], None]", registry.load(registry.COMPLETE))
            complete(self, len(self.prog.split()) - 1)
        if VERSION in arguments and VERSION not in self._option_string_actions:
            sys.stdout.write(f"{version_text()}\n")
            raise SystemExit(0)
        options, unknown = self.parse_known_args(["--help" if word == "-?" else word for word in arguments])
        if unknown:
            self.error(self._unknown(unknown[0]))
        return options

    def error(self, message: str) -> NoReturn:
        """Exit with an error of one line."""
        sys.stderr.write(f"{self.prog}: {message}; {self.prog} --help lists the options\n")
        raise SystemExit(USAGE_ERROR)

    def option(self, name: str, help_text: str, default: str | None = None, metavar: str = "TEXT") -> None:
        """Add an option with a value, spelt ``--camelCase`` and ``--camel-case``."""
        self.add_argument(*_spellings(name), dest=_attribute(name), default=default, metavar=metavar, help=help_text)

    def whole_number(self, name: str, help_text: str, default: int, lowest: int = 0) -> None:
        """Add an option for a whole number of at least ``lowest``."""

        def convert(text: str) -> int:
            if not re.fullmatch(r"-?[0-9]{1,18}", text, re.ASCII) or int(text) < lowest:
                raise argparse.ArgumentTypeError(f"{text!r} is no whole number from {lowest} on")
            return int(text)

        self.add_argument(
            *_spellings(name), dest=_attribute(name), default=default, type=convert, metavar="N", help=help_text
        )

    def flag(self, name: str, help_text: str, default: bool = False) -> None:
        """Add a boolean option: alone, or with the value true or false."""
        self.add_argument(
            *_spellings(name),
            dest=_attribute(name),
            default=default,
            nargs="?",
            const=True,
            type=_truth,
            metavar="true|false",
            help=help_text,
        )

    def _unknown(self, word: str) -> str:
        name = word.partition("=")[0]
        if not name.startswith("-"):
            return f"{_redacted(name)[:60]!r} is one argument too many"
        reason = FOREIGN.get(_words(name.lstrip("-"), "").replace("-", ""))
        if reason is not None:
            return f"{name[:60]} of ActiveMQ's script is refused: {reason}"
        known = {option for action in self._actions for option in action.option_strings}
        return f"unknown option {name[:60]}{suggestion(name, known, ', ', 0)}"


def placement(parser: Parser, names_others: bool = False, starts: bool = False) -> None:
    """Add the options that name a broker.

    Commands with ``starts`` start the broker; other commands talk to a running broker.

    A command with other positional arguments (``names_others``) accepts the file as an option only.
    """
    running = " A running broker may be named by its brokerName, and need not be named when no other one runs"
    parser.add_argument(
        "--configuration",
        action=_Once,
        metavar="FILE",
        help=f"the broker's file: an activemq.xml (or xbean:PATH) or a TOML file; else ${CONFIGURATION_VARIABLE}."
        + (" Without either the built-in default" if starts else running),
    )
    if not names_others:
        parser.add_argument(
            "configuration",
            nargs="?",
            action=_Once,
            default=argparse.SUPPRESS,
            metavar="FILE",
            help="the same as --configuration FILE",
        )
    _directory_and_definitions(parser)


class _Once(argparse.Action):
    """Accepts a value only once, in any spelling."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[object] | None,
        option_string: str | None = None,
    ) -> None:
        first = getattr(namespace, self.dest, None)
        if first is not None:
            parser.error(f"two brokers are named, {_redacted(str(first))} and {_redacted(str(values))}: name one")
        setattr(namespace, self.dest, values)


def start_options(parser: Parser) -> None:
    """Add the options with an influence on the acceptance of a configuration."""
    parser.add_argument(
        "--allow-anonymous",
        "--allowAnonymous",
        action="store_true",
        help="accept clients from other machines although no authentication is configured",
    )
    parser.add_argument(
        "--skip-unsupported",
        "--skipUnsupported",
        action="store_true",
        help="skip unsupported settings, with one log line each; settings that guard access are never skipped",
    )
    parser.add_argument(
        "--convertors",
        type=Path,
        metavar="DIRECTORY",
        help="Python files with the message convertors of jmsBridgeConnectors; only their owner may write to them",
    )
    parser.add_argument(
        "--deploy",
        type=Path,
        metavar="DIRECTORY",
        help="files with routes and bridges, which start and stop as files come, change and go; only their owner may "
        "write to them",
    )
    parser.add_argument(
        "--jars",
        type=Path,
        metavar="DIRECTORY",
        help="jars of other JMS providers for jmsBridgeConnectors; only their owner may write to them",
    )


def log_options(parser: Parser) -> None:
    """Add the options of a process with a log."""
    parser.add_argument(
        "--log-level", "--logLevel", choices=LOG_LEVELS, default="info", help="the lowest level of log lines"
    )
    parser.add_argument(
        "--log-format",
        "--logFormat",
        choices=LOG_FORMATS,
        default=LOG_FORMATS[0],
        help="the form of log lines; json writes each one as an object",
    )
    parser.add_argument(
        "--log-file",
        "--logFile",
        type=Path,
        metavar="FILE",
        help="append the log to this file, not to standard error; SIGHUP opens it again after a rotation",
    )


def _directory_and_definitions(parser: Parser) -> None:
    parser.add_argument(
        "--data-directory",
        "--dataDirectory",
        type=Path,
        metavar="DIRECTORY",
        help="the broker's data directory, if not the one in the file",
    )
    parser.add_argument(
        "-D",
        action="append",
        default=[],
        type=_definition,
        metavar="NAME=VALUE",
        dest="definitions",
        help="the value of a placeholder ${NAME} in the file",
    )


def _spellings(name: str) -> list[str]:
    kebab = "--" + _words(name, "-")
    camel = "--" + name
    return [kebab] if kebab == camel else [kebab, camel]


def _attribute(name: str) -> str:
    return _words(name, "_")


def _words(name: str, separator: str) -> str:
    """Return the words of ``camelCase`` in lower case; the last word may be capitals, as in ``msgTTL``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", separator, name).lower()


def _truth(text: str) -> bool:
    lower = text.lower()
    if lower not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"{_redacted(text)!r} is neither true nor false")
    return lower == "true"


def _redacted(text: str) -> str:
    """Return a word for an error without the secrets of a URL."""
    redacted = cast(Callable[[str], str], registry.load(registry.REDACTED))
    return redacted(text)


def _definition(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError("write -D NAME=VALUE")
    return name, value
