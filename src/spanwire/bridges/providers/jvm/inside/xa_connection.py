"""One connection of JMS with an XA session: branches of distributed transactions (JTA's ``XAResource``).

A branch begins before its first receipt or send, because JMS has no other way for these to belong to it. A receive
without a message ends its branch again, so that an idle bridge holds none open, which brokers end after a time.
"""

from __future__ import annotations

from typing import Any, Final

import jpype

from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.providers.jvm.frames import MESSAGES, Header, check_branches
from spanwire.bridges.providers.jvm.inside.java import Java, JavaError, WrongFactoryError
from spanwire.bridges.providers.jvm.inside.jms_connection import JmsConnection, RefusedError

OK: Final = 0  # XAResource.XA_OK, the vote of a branch that needs a commit
NO_FLAGS: Final = 0  # XAResource.TMNOFLAGS
SUCCESS: Final = 0x04000000  # XAResource.TMSUCCESS
SCAN: Final = 0x01000000 | 0x00800000  # XAResource.TMSTARTRSCAN and TMENDRSCAN: all branches at once
XID: Final = "javax.transaction.xa.Xid"

Branch = list[Any]  # format id, and global id and branch qualifier in hexadecimal


class XaJmsConnection(JmsConnection):
    """A connection whose receipts and sends belong to branches."""

    def __init__(self, spec: dict[str, Any], tell: Any) -> None:
        """Connect, as `JmsConnection` does."""
        self._active: Branch | None = None  # begun, and not ended
        self._has_received = False
        super().__init__(spec, tell)

    def _connect(self, factory: Java, user: str | None, password: str) -> Java:
        """Return a connection with XA. Raises `WrongFactoryError` for a factory without."""
        if not isinstance(factory, jpype.JClass(f"{self._api}.XAConnectionFactory")):
            raise WrongFactoryError(
                f"{factory.getClass().getName()} has no distributed transactions, which ONCE_AND_ONLY_ONCE needs "
                "between two brokers; name the XA class of its provider, such as "
                "org.apache.activemq.ActiveMQXAConnectionFactory"
            )
        return factory.createXAConnection() if user is None else factory.createXAConnection(user, password)

    def _new_session(self) -> Java:
        session = self._connection.createXASession()
        self._resource: Java = session.getXAResource()
        return session

    def receive_in(
        self, branch: Branch, max_messages: int, max_bytes: int, wait_s: float
    ) -> tuple[Header, list[bytes]]:
        """Receive in a branch, which begins with the first call."""
        if self._active is None:
            self._begin(branch)
            self._has_received = False
        header, blobs = self.receive(max_messages, max_bytes, wait_s)
        if header[MESSAGES]:
            self._has_received = True
        elif not self._has_received:
            self._undo()
        return header, blobs

    def send_in(self, branch: Branch, messages: list[BridgeMessage]) -> None:
        """Begin a branch, and send in it. Raises `RefusedError` for a message at fault; the branch is undone then."""
        self._begin(branch)
        try:
            self.send(messages)
        except RefusedError:
            self._undo()
            raise

    def prepare(self, branch: Branch) -> bool:
        """End and prepare a branch. Returns False if it needs no commit."""
        self._finish()
        return int(self._resource.prepare(_xid(branch))) == OK

    def settle(self, action: str, branch: Branch) -> None:
        """Commit, roll back or forget a prepared branch."""
        xid = _xid(branch)
        if action == "xa_commit":
            self._resource.commit(xid, False)
        elif action == "xa_rollback":
            self._resource.rollback(xid)
        else:
            self._resource.forget(xid)

    def prepared(self) -> list[Branch]:
        """Return all prepared branches of the provider."""
        found = self._resource.recover(jpype.JInt(SCAN))
        if found is None:
            return []
        check_branches(len(found))
        return [_branch(xid) for xid in found]

    def dead_letter(self, cause: str) -> None:
        """Send the last message to the dead letter queue, in the branch of its receipt, and commit that alone."""
        branch = self._active
        if branch is None:
            raise JavaError("a message without a branch cannot become a dead letter")
        self._send_dead_letter(cause)
        self._finish()
        self._resource.commit(_xid(branch), True)

    def _begin(self, branch: Branch) -> None:
        self._resource.start(_xid(branch), jpype.JInt(NO_FLAGS))
        self._active = branch

    def _finish(self) -> None:
        branch, self._active = self._active, None
        if branch is None:
            raise JavaError("no branch has begun")
        self._resource.end(_xid(branch), jpype.JInt(SUCCESS))

    def _undo(self) -> None:
        branch = self._active
        self._finish()
        self._resource.rollback(_xid(branch))


def _xid(branch: Branch | None) -> Java:
    """Return a branch as Java has it."""
    assert branch is not None
    format_id, global_id, qualifier = branch[0], _octets(branch[1]), _octets(branch[2])
    methods = {
        "getFormatId": lambda: jpype.JInt(format_id),
        "getGlobalTransactionId": lambda: global_id,
        "getBranchQualifier": lambda: qualifier,
    }
    return jpype.JProxy(XID, dict=methods)


def _branch(xid: Java) -> Branch:
    return [int(xid.getFormatId()), _hex(xid.getGlobalTransactionId()), _hex(xid.getBranchQualifier())]


def _octets(text: str) -> Java:
    return jpype.JArray(jpype.JByte)([octet - 256 if octet > 127 else octet for octet in bytes.fromhex(text)])


def _hex(octets: Java) -> str:
    return bytes(int(octet) & 0xFF for octet in octets).hex()
