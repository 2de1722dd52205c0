"""A broker as the web process sees it: answers to commands in memory, logins included. No socket, no broker."""

from __future__ import annotations

from typing import Final

from spanwire.management.control_client import ControlError
from spanwire.management.handles import FORBIDDEN, REFUSED, UNAUTHENTICATED
from spanwire.management.tables.operation_table import COMMAND_ROLES, Role

USERS: Final = {"anna": ("a-word", "admin"), "otto": ("o-word", "operate"), "vera": ("v-word", "view")}

LINK: Final[dict[str, object]] = {
    "name": "to-billing", "uri": "tcp://billing:61616", "remote": "billing", "state": "running", "reason": "",
    "demand": 1, "in_flight": 0, "enqueued": 5, "dequeued": 4, "received": 0, "failed": 0, "reconnects": 2,
    "since_s": 3.0, "duplex": False,
}  # fmt: skip
SUMMARY: Final[dict[str, object]] = {
    "name": "orders",
    "id": "ID:b",
    "version": "1",
    "pid": 0,
    "uptime_s": 12.5,
    "connectors": [{"name": "openwire", "uri": "tcp://127.0.0.1:61616", "connections": 3}],
    "network_connectors": [LINK],
    "statistics": {
        "connections": 3, "memory_bytes": 200, "memory_limit_bytes": 1000, "parked_sends": 0,
        "durable_subscriptions": 1, "durable_subscriptions_away": 1, "durable_pending": 7, "prepared_transactions": 0,
        "store_bytes": 50, "store_limit_bytes": 0, "temporary_limit_bytes": 0, "disk_full": False,
    },
    "usage": {
        "memory_percent": 20, "store_percent": 1, "temporary_percent": 1, "disk_free_bytes": 10_000, "disk_full": False,
    },
}  # fmt: skip


def destination(name: str, pending: int = 0, enqueued: int = 0) -> dict[str, object]:
    """A row of ``destinations``."""
    return {
        "destination": name, "pending": pending, "in_flight": 0, "enqueued": enqueued, "dequeued": enqueued - pending,
        "dispatched": enqueued - pending, "expired": 0, "consumers": 1, "producers": 1, "memory_bytes": 10,
        "memory_limit_bytes": 0, "paused": False, "durable_subscriptions": 0, "cached": pending, "blocked_sends": 2,
        "blocked_ms": 30, "dead_letters": False,
    }  # fmt: skip


DETAILS: Final[dict[str, object]] = {
    "statistics_enabled": False,
    "average_size_bytes": None,
    "groups": {},
    "producer_flow_control": True,
}


class FakeBrokerLink:
    """Answers as the control socket does, checks handles, and counts what it is asked."""

    def __init__(self, *, is_open: bool = False) -> None:
        self.is_open = is_open
        self.is_there = True
        self.asked: list[tuple[str, dict[str, object]]] = []
        self.answers: dict[str, object] = {
            "ping": {"name": "orders", "pid": 0},
            "exposure": {"obstacle": None, "realm": False},
            "summary": SUMMARY,
            "destinations": [destination("queue://A", 3, 10), destination("topic://T", 0, 4)],
            "subscriptions": [],
            "connections": [],
            "consumers": [],
            "producers": [],
        }
        self.refusal = ""
        self.users = dict(USERS)
        self._handles: dict[str, Role] = {}

    def forget_handles(self) -> None:
        """Become a broker that has started again."""
        self._handles.clear()

    def count(self, command: str) -> int:
        """How often a command was asked."""
        return sum(asked == command for asked, _ in self.asked)

    async def ask(self, command: str, **arguments: object) -> object:
        if not self.is_there:
            raise ControlError("no broker runs")
        self.asked.append((command, arguments))
        if command == "login":
            return self._login(arguments.get("user"), arguments.get("password"))
        if "handle" in arguments:
            role = self._handles.get(str(arguments["handle"]))
            if role is None:
                raise ControlError("the login has ended", UNAUTHENTICATED)
            if command not in COMMAND_ROLES or role < COMMAND_ROLES[command]:
                raise ControlError("the role is too low", FORBIDDEN)
        if command == "destination":
            rows = self.answers["destinations"]
            assert isinstance(rows, list)
            return {**next(row for row in rows if row["destination"] == arguments["destination"]), **DETAILS}
        if command == "changes":
            return self._changes()
        if self.refusal:
            raise ControlError(self.refusal, REFUSED)
        return self.answers.get(command, [])

    def _changes(self) -> list[object]:
        """All rows, as a broker that has started again answers."""
        rows = self.answers["destinations"]
        assert isinstance(rows, list)
        columns = list(rows[0]) if rows else []
        header = {"since": [1, 1], "complete": True, "removed": 0, "columns": columns}
        return [header, *([row.get(name) for name in columns] for row in rows)]

    def _login(self, user: object, password: object) -> dict[str, object]:
        role = "view"
        if not self.is_open:
            known = self.users.get(str(user))
            if known is None or known[0] != password:
                raise ControlError("User name or password is invalid.", UNAUTHENTICATED)
            role = known[1]
        handle = f"handle-{len(self.asked)}"
        self._handles[handle] = Role[role.upper()]
        return {"handle": handle, "role": role, "user": user or "anonymous", "lifetime_s": 60}
