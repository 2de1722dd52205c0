"""Interfaces between the core and what knows the other brokers of the network (`spanwire.network`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from spanwire.model.environment import Time


class NetworkReporter(Protocol):
    """Tells other brokers of the network about the links of this one."""

    def report(self, seconds: int, may_read: Callable[[str], bool] | None = None) -> str:
        """Return what is known of links as JSON; the asking broker is watched for so many seconds more.

        ``may_read`` tells which destinations are told; None for all.
        """
        ...


class LateAnswer(Protocol):
    """Takes the answer to a request that was not answered at once."""

    def give(self, text: str, now: Time) -> None:
        """Answer with ``text``."""
        ...


class NetworkQuestions(Protocol):
    """Answers other brokers of the network about messages."""

    def answer_later(self, action: str, text: str, asked: str, seconds: int, question: str, answer: LateAnswer) -> bool:
        """Give an answer within so many seconds, as JSON; return False if too many questions are being answered.

        Args:
            action: the kind of the question, such as why.
            text: the id of the message, or a question as JSON.
            asked: names of brokers that are asked already, a line each.
            seconds: the time for this broker and those behind it.
            question: the id of the question, which may come over several links.
            answer: takes the answer.
        """
        ...


class NetworkGossip(Protocol):
    """Takes what other brokers tell of the members of the network, and tells them."""

    def exchange(self, content: bytes, teller: str) -> str:
        """Return the known members as JSON, and take those that a client at ``teller`` tells."""
        ...
