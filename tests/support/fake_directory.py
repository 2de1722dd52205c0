"""A directory in memory that answers when the test says so. Duck-typed to `spanwire.broker.ports.Directory`."""

from __future__ import annotations

from spanwire.broker.ports import DirectoryAsker, Principal
from spanwire.broker.security.authentication import DirectoryModule, LoginStack, StackEntry
from spanwire.model.info import ConnectionInfo


class FakeDirectory:
    """Knows users by the rule that the password is the name backwards; everybody is in the group "staff"."""

    def __init__(self) -> None:
        self.questions: list[tuple[ConnectionInfo, DirectoryAsker]] = []
        self.asked: list[str] = []

    def ask(self, info: ConnectionInfo, asker: DirectoryAsker) -> None:
        self.asked.append(str(info.user_name))
        self.questions.append((info, asker))

    def answers(self) -> None:
        """Answer the oldest question."""
        info, asker = self.questions.pop(0)
        name = str(info.user_name)
        asker.on_answer(Principal(name, frozenset({"staff"})) if info.password == name[::-1] else None, True)

    def fails(self) -> None:
        """Report that the oldest question got no answer."""
        self.questions.pop(0)[1].on_answer(None, False)

    def stack(self, flag: str = "required") -> LoginStack:
        return LoginStack([StackEntry(flag, DirectoryModule(self))])
