"""The command ``spanwire transaction``: prepared branches of distributed transactions of any program."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from spanwire.bridges.xa.branches import log_of, transaction_of
from spanwire.bridges.xa.decisions import Decisions
from spanwire.bridges.xa.log_file import FILE, read_content
from spanwire.bridges.xa.records import read_lines
from spanwire.cli.arguments import Command, Parser, run_command
from spanwire.cli.endpoint import DEFAULT_BROKER_URL, login_options, password, tls_settings
from spanwire.client import blocking
from spanwire.client.branch_recovery import FORMAT_ID
from spanwire.model.errors import ConfigurationError
from spanwire.model.ids import XaTransactionId
from spanwire.model.text import escaped

FAILURE: Final = 1
LEDGER: Final = b"spanwire:"  # first part of the branches of the Spark sink's ledger
COMMIT, ROLLBACK, NONE, UNKNOWN = "commit", "rollback", "none", "unknown"
CONTRARY: Final = {COMMIT: NONE, ROLLBACK: COMMIT}  # the decision that forbids an action


@dataclass(frozen=True, slots=True)
class PreparedBranch:
    """A prepared branch in the view of an operator."""

    transaction: str
    owner: str
    decision: str


def run(arguments: Sequence[str]) -> int:
    """Run a command about prepared branches and return the exit status."""
    return run_command("spanwire transaction", arguments, COMMANDS)


def _list(arguments: Sequence[str]) -> int:
    parser = Parser(
        prog="spanwire transaction list",
        description="List the prepared branches of a broker: their programs must commit them or roll them back.",
    )
    _options(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse(arguments)
    decisions = _decisions(options.transactions)
    with _connect(options) as connection, connection.session("xa") as session:
        branches = [_view(branch, decisions) for branch in session.xa.recover()]
    if options.json:
        rows = [{"transaction": one.transaction, "owner": one.owner, "decision": one.decision} for one in branches]
        sys.stdout.write(json.dumps(rows, indent=2) + "\n")
        return 0
    lines = [f"{one.transaction}  {one.owner}, decision: {one.decision}" for one in branches]
    lines = lines or ["no branch is prepared"]
    for report in [] if decisions is None else decisions.heuristics:
        at = datetime.fromtimestamp(report.at_ms / 1000, UTC).isoformat(timespec="seconds")
        lines.append(f"heuristic outcome at {at}, bridge {report.bridge}: {report.problem}")
    sys.stdout.write("".join(escaped(line) + "\n" for line in lines))
    return 0


def _commit(arguments: Sequence[str]) -> int:
    return _settle(arguments, COMMIT, "Commit prepared branches of a broker. Their messages arrive.")


def _rollback(arguments: Sequence[str]) -> int:
    return _settle(
        arguments, ROLLBACK, "Roll back prepared branches of a broker. Sent messages are dropped, received ones return."
    )


def _settle(arguments: Sequence[str], action: str, description: str) -> int:
    parser = Parser(prog=f"spanwire transaction {action}", description=description)
    parser.add_argument("ids", metavar="TRANSACTION", nargs="+", help="as spanwire transaction list shows it")
    _options(parser)
    options = parser.parse(arguments)
    branches = [branch_of(text) for text in options.ids]
    decisions = _decisions(options.transactions)
    for branch in branches:
        decision = _decision(branch, decisions)
        if decision == CONTRARY[action]:
            raise ConfigurationError(
                f"{text_of(branch)}: the decision in the log is {decision}, so its bridge would do the contrary of "
                f"{action} at the other broker; start the bridge"
            )
    with _connect(options) as connection, connection.session("xa") as session:
        for branch in branches:
            if action == COMMIT:
                session.xa.commit(branch)
            else:
                session.xa.rollback(branch)
            done = "committed" if action == COMMIT else "rolled back"
            sys.stdout.write(f"{text_of(branch)}: {done}\n")
    return 0


def text_of(branch: XaTransactionId) -> str:
    """Return the id of a branch as a word: format id, global id and qualifier."""
    return "/".join(
        (str(branch.format_id), quote(branch.global_id, safe=":"), quote(branch.branch_qualifier, safe=":"))
    )


def branch_of(text: str) -> XaTransactionId:
    """Return the branch of a word. Raises `ConfigurationError`."""
    parts = text.split("/")
    try:
        format_id, global_id, qualifier = parts
        return XaTransactionId(int(format_id), unquote_to_bytes(global_id), unquote_to_bytes(qualifier))
    except (ValueError, OverflowError):
        raise ConfigurationError(
            f"{text[:200]!r} is no id of a branch; copy the first word of a line of spanwire transaction list"
        ) from None


def _view(branch: XaTransactionId, decisions: Decisions | None) -> PreparedBranch:
    side, _, name = branch.branch_qualifier.decode("latin-1").partition(":")
    if log_of(branch) is not None:
        owner = f"bridge {name}, {side}"
    elif branch.format_id == FORMAT_ID and branch.global_id.startswith(LEDGER):
        owner = "Spark, exactly once by a ledger"
    else:
        owner = "another program"
    return PreparedBranch(text_of(branch), owner, _decision(branch, decisions))


def _decision(branch: XaTransactionId, decisions: Decisions | None) -> str:
    if decisions is None or log_of(branch) != decisions.log_id:
        return UNKNOWN
    return COMMIT if transaction_of(branch) in decisions.pending else NONE


def _decisions(directory: Path | None) -> Decisions | None:
    """Return the decisions of a bridge's log. Raises `ConfigurationError` or `StoreError`."""
    if directory is None:
        return None
    content = read_content(directory / FILE)
    if content is None:
        raise ConfigurationError(f"{directory} has no {FILE}; name the directory of spanwire bridge run --transactions")
    return Decisions(*read_lines(content, directory / FILE))


def _options(parser: Parser) -> None:
    parser.option("brokerUrl", f"the broker's address, {DEFAULT_BROKER_URL} without it", DEFAULT_BROKER_URL, "URL")
    login_options(parser)
    parser.add_argument(
        "--transactions",
        type=Path,
        metavar="DIRECTORY",
        help="the decisions of a file of bridges, usually FILE.transactions: shows decisions and heuristic outcomes, "
        "and refuses what contradicts a decision",
    )


def _connect(options: argparse.Namespace) -> blocking.Connection:
    url = str(options.broker_url)
    return blocking.connect(url, options.user, password(options), None, tls_settings(url, options))


COMMANDS: Final[dict[str, tuple[Command, str]]] = {
    "list": (_list, "list the prepared branches of a broker"),
    "commit": (_commit, "commit prepared branches"),
    "rollback": (_rollback, "roll back prepared branches"),
}
