"""Advisories as short texts, for dialogues with the broker."""

from __future__ import annotations

from spanwire.broker.ports import AdvisedMessage, RemovedSubject
from spanwire.model.destination import Destination
from spanwire.model.info import ConnectionInfo, ConsumerInfo, ProducerInfo
from spanwire.model.message import Message
from tests.support.dialogue.text_format import text_message, text_of


class SpokenAdvisories:
    """Duck-typed to `spanwire.broker.ports.AdvisoryFormat`: advisories as short texts, with a count of those built."""

    def __init__(self) -> None:
        self.built = 0

    def advisory(
        self, destination: Destination, subject: object, properties: dict[str, object], number: int, wall_ms: int
    ) -> Message:
        self.built += 1
        assert number == self.built
        text = spoken(subject) + "".join(f" {name}={value}" for name, value in properties.items())
        return text_message(destination, number, text.encode(), "ID:broker", persistent=False)


def spoken(subject: object) -> str:
    """A subject in a few words."""
    if isinstance(subject, RemovedSubject):
        return f"-{subject.subject}"
    if isinstance(subject, ConnectionInfo):
        assert subject.password is None, "the password is told to nobody"
        return f"+{subject.connection_id}"
    if isinstance(subject, ConsumerInfo):
        return f"+{subject.consumer_id}"
    if isinstance(subject, ProducerInfo):
        return f"+{subject.producer_id}"
    if isinstance(subject, AdvisedMessage):
        return f"{'whole' if subject.whole else 'bare'} {text_of(subject.message)} of {subject.message.destination}"
    return f"+{subject}"
