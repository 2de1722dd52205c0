"""Source and target of distributed transactions as requests to a host."""

from __future__ import annotations

from typing import Final

from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.ports import MessageRefusedError
from spanwire.bridges.providers.jvm.connections import HostConnection
from spanwire.bridges.providers.jvm.frames import MESSAGES, Header, UnwritableError, write_messages
from spanwire.bridges.providers.jvm.host import Answer, HostAnswerError, JvmHost
from spanwire.model.errors import TransactionRolledBackError, xa_error
from spanwire.model.ids import XaTransactionId

ROLLED_BACK: Final = range(100, 108)  # XAException.XA_RBBASE to XA_RBEND


class JvmBranches(HostConnection):
    """The branches at one JMS provider."""

    async def prepare(self, branch: XaTransactionId) -> bool:
        """End the work in a branch, and prepare it."""
        await self.end_receive()
        header, _ = await self.ask_about(branch, {"do": "xa_prepare"})
        return bool(header["vote"])

    async def commit(self, branch: XaTransactionId) -> None:
        """Commit a prepared branch."""
        await self.ask_about(branch, {"do": "xa_commit"})

    async def roll_back(self, branch: XaTransactionId) -> None:
        """Roll back a prepared branch."""
        await self.ask_about(branch, {"do": "xa_rollback"})

    async def forget(self, branch: XaTransactionId) -> None:
        """Let the provider forget a branch with a heuristic outcome."""
        await self.ask_about(branch, {"do": "xa_forget"})

    async def prepared_branches(self) -> list[XaTransactionId]:
        """Return the prepared branches of all programs."""
        header, _ = await self._ask({"do": "xa_recover"})
        return [
            XaTransactionId(format_id, bytes.fromhex(global_id), bytes.fromhex(qualifier))
            for format_id, global_id, qualifier in header["branches"]
        ]

    async def ask_about(self, branch: XaTransactionId, header: Header, blobs: list[bytes] | None = None) -> Answer:
        """Ask the host about a branch. Raises the errors of `spanwire.bridges.ports.XaBranches`."""
        try:
            return await self._ask({**header, "branch": plain_branch(branch)}, blobs)
        except HostAnswerError as error:
            if error.xa_code is None or error.is_lost:
                raise
            if error.xa_code in ROLLED_BACK:
                raise TransactionRolledBackError(str(error)) from None
            raise xa_error(str(error), error.xa_code) from None


class JvmXaSource(JvmBranches):
    """A consumer in an XA session."""

    def __init__(self, host: JvmHost) -> None:
        super().__init__(host)
        self._branch: XaTransactionId | None = None

    def begin(self, branch: XaTransactionId) -> None:
        """Name the branch of the next receipts; it begins with them."""
        self._branch = branch

    async def receive(self, max_messages: int, max_bytes: int, wait_s: float) -> list[BridgeMessage]:
        """Receive in the branch."""
        assert self._branch is not None, "a branch is named before a receive"
        request = {"do": "xa_receive", "branch": plain_branch(self._branch)}
        return await self.receive_by(request, max_messages, max_bytes, wait_s)

    async def dead_letter(self, cause: str) -> None:
        """Move the only received message to the dead letter queue, in a transaction of its own."""
        await self.end_receive()
        await self._ask({"do": "dead_letter", "cause": cause})


class JvmXaTarget(JvmBranches):
    """A producer in an XA session."""

    async def send(self, branch: XaTransactionId, messages: list[BridgeMessage]) -> None:
        """Begin a branch, and send in the branch."""
        try:
            headers, blobs = write_messages(messages)
        except UnwritableError as error:
            raise MessageRefusedError(error.index, str(error)) from None
        try:
            await self.ask_about(branch, {"do": "xa_send", MESSAGES: headers}, blobs)
        except HostAnswerError as error:
            if error.refused is None:
                raise
            raise MessageRefusedError(error.refused, str(error)) from None


def plain_branch(branch: XaTransactionId) -> list[object]:
    """Return a branch for a frame."""
    return [branch.format_id, branch.global_id.hex(), branch.branch_qualifier.hex()]
