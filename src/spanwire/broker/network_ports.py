"""Interfaces between the core and `spanwire.network`, which knows the other brokers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from spanwire.model.environment import Time


class NetworkReporter(Protocol):
    """Tells other brokers of the network about the links of this broker."""

    def report(self, seconds: int, may_read: Callable[[str], bool] | None = None) -> str:
        """Return the known links as JSON; the asking broker is watched for so many seconds more.

        ``may_read`` returns True for a destination to report; None for all.
        """
        ...

    def take(self, content: bytes, teller: str) -> None:
        """Take the report of an invited broker, a client at ``teller``."""
        ...

    def invite(self, name: str, seconds: int) -> None:
        """Report to a linked broker for so many seconds."""
        ...


class LateAnswer(Protocol):
    """Takes the answer to a request not answered at once."""

    def give(self, text: str, now: Time) -> None:
        """Answer with ``text``."""
        ...


class NetworkQuestions(Protocol):
    """Answers other brokers of the network about messages."""

    def answer_later(self, action: str, text: str, asked: str, seconds: int, question: str, answer: LateAnswer) -> bool:
        """Give an answer within so many seconds, as JSON.

        Returns False if too many questions are being answered.

        Args:
            action: the kind of the question, such as why.
            text: the id of the message, or a question as JSON.
            asked: names of brokers already asked, a line each.
            seconds: the time for this broker and the brokers behind.
            question: the id of the question; a question may come over several links.
            answer: takes the answer.
        """
        ...


class NetworkGossip(Protocol):
    """Takes reports of other brokers about the members of the network, and gives reports."""

    def exchange(self, content: bytes, teller: str) -> str:
        """Return the known members as JSON, and take the members reported by a client at ``teller``."""
        ...
