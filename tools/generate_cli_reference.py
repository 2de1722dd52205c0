"""Writes docs/reference/cli.md from the argument parsers of the commands.

python tools/generate_cli_reference.py            # writes the page
python tools/generate_cli_reference.py --check    # fails if the page is not what the parsers give
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from unittest import mock

from spanwire.cli.main import COMMANDS
from spanwire.cli.main import main as run_command

TARGET: Final = Path(__file__).resolve().parent.parent / "docs" / "reference" / "cli.md"
HEAD: Final = """\
# Commands

This page lists every command of `spanwire` with its options. `tools/generate_cli_reference.py` writes it from the
argument parsers.

Options have two spellings: `--broker-url` and, as in ActiveMQ's tools, `--brokerUrl`. `spanwire COMMAND --help` prints
the options of a command, and `spanwire --version` prints the build. The exit status is 0 for success, 1 for a failure,
2 for a wrong command line and 130 after Ctrl-C.

bash, zsh and fish complete commands, actions and options with the extra `completion`:

```console
$ pip install '.[completion]'
$ eval "$(register-python-argcomplete spanwire)"          # bash and zsh; in ~/.bashrc or ~/.zshrc for all shells
$ register-python-argcomplete --shell fish spanwire | source
```

| command | task |
|---|---|
"""


def main() -> int:
    text = page()
    if "--check" in sys.argv[1:]:
        if not TARGET.exists() or TARGET.read_text("utf-8") != text:
            sys.stdout.write(f"{TARGET.name} is not what the parsers give: run tools/generate_cli_reference.py\n")
            return 1
        return 0
    TARGET.write_text(text, "utf-8")
    return 0


def page() -> str:
    rows = [f"| [`spanwire {name}`](#spanwire-{name}) | {cell(task)} |" for name, (_, task) in COMMANDS.items()]
    parts = [HEAD + "\n".join(rows) + "\n"]
    for name in COMMANDS:
        parts += command(name)
    return "\n".join(parts)


def command(name: str) -> Iterator[str]:
    """Return the sections of a command and of its subcommands."""
    parser, printed = help_of([name])
    yield f"## spanwire {name}\n"
    if parser is not None:
        if parser.prog != f"spanwire {name}":
            yield f"### {parser.prog}\n"
        yield from options(parser)
        return
    yield f"{COMMANDS[name][1][0].upper()}{COMMANDS[name][1][1:]}.\n"
    found = subcommands(name, printed)
    if not any(found.values()) or any(word.islower() and parser is None for word, parser in found.items()):
        yield f"```text\n{printed.rstrip()}\n```\n"
    for word, sub in found.items():
        if sub is not None:
            yield f"### spanwire {name} {word}\n"
            yield from options(sub)


def subcommands(name: str, printed: str) -> dict[str, argparse.ArgumentParser | None]:
    """Return the words that the help of a command lists, each with the parser that answers for it."""
    words = re.findall(rf"spanwire {name} (\w+)|^  (\w+)  ", printed, re.MULTILINE)
    return {word: help_of([name, word])[0] for word in dict.fromkeys(one or two for one, two in words)}


def help_of(words: list[str]) -> tuple[argparse.ArgumentParser | None, str]:
    """Return the parser that answers ``--help``, or the text of a command that answers without one."""
    parsers: list[argparse.ArgumentParser] = []
    output = io.StringIO()
    with (
        mock.patch.object(argparse.ArgumentParser, "print_help", lambda self, file=None: parsers.append(self)),
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(io.StringIO()),
        contextlib.suppress(SystemExit),
    ):
        run_command([*words, "--help"])
    return (parsers[0] if parsers else None), output.getvalue()


def options(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Return the description of a parser and a table of its arguments."""
    summary, _, rest = (parser.description or "").partition("\n\n")
    yield cell(summary) + "\n"
    if rest:
        yield f"```text\n{rest.strip(chr(10))}\n```\n"
    actions = [action for action in parser._actions if not isinstance(action, argparse._HelpAction)]
    if not actions:
        return
    yield "| argument | meaning |\n|---|---|"
    for action in sorted(actions, key=lambda action: bool(action.option_strings)):
        yield f"| {spelling(action)} | {meaning(action)} |"
    yield ""


def spelling(action: argparse.Action) -> str:
    """Return the spellings of an argument with the name of its value."""
    value = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    if action.choices is not None:
        value = "VALUE"
    if not action.option_strings:
        return f"`{value}`" + (" …" if action.nargs in ("*", "+") else "")
    shown = "" if action.nargs in (0, "?") else f" {value}"
    return ", ".join(f"`{name}{shown}`" for name in action.option_strings)


def meaning(action: argparse.Action) -> str:
    """Return the help text of an argument with the values that it takes."""
    text = cell((action.help or "") % vars(action))
    if action.choices is not None:
        return f"{text}: {', '.join(f'`{choice}`' for choice in action.choices)}"
    return f"{text} (`true` or `false`)" if action.nargs == "?" and action.option_strings else text


def cell(text: str) -> str:
    """Return a text as one line of Markdown, fit for a table."""
    return " ".join(text.split()).replace("|", r"\|").replace("<", "&lt;").replace("*", r"\*").replace("[", r"\[")


if __name__ == "__main__":
    raise SystemExit(main())
