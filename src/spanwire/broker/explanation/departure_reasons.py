"""Reasons of absent messages, from the memory of departures."""

from __future__ import annotations

from typing import Final

from spanwire.broker.dispatch.history import departures
from spanwire.broker.dispatch.history.departures import Departure, Departures
from spanwire.broker.explanation.explanation import UNKNOWN, Explanation, clock_text, counted, quoted
from spanwire.broker.routing.dead_letters import EXPIRED
from spanwire.model.environment import Time

DIED_OF_AGE: Final = 0  # beside the kinds of departures: expired, with a dead letter
SENTENCES: Final = {
    DIED_OF_AGE: "it expired in {name} at {at}, and a dead letter went to {target}",
    departures.DEAD_LETTERED: "it was given up in {name} at {at}, and a dead letter went to {target}",
    departures.EXPIRED: "it expired in {name} at {at}, and left no dead letter",
    departures.DISCARDED: "it was given up in {name} at {at}, and no policy wanted a dead letter",
    departures.MOVED: "an operator moved it from {name} to {target} at {at}",
    departures.REMOVED: "an operator removed it from {name} at {at}",
    departures.SENT_NOWHERE: "it was sent nowhere at {at}: topic {name} had no subscriber",
    departures.DUPLICATE: "it was sent again to {name} and dropped at {at}: the broker had taken its id before",
    departures.SECOND_COPY: "a copy that came to {name} over a second route was dropped at {at}",
    departures.PUSHED_OUT: "newer messages pushed it out of {name} at {at}: the queue keeps the latest ones",
    departures.REPLACED: "a newer message with its key replaced it in {name} at {at}: the queue keeps the last value",
    departures.DUPLICATE_ID: "it was dropped at {at}: {name} had accepted its _AMQ_DUPL_ID before",
}
SEE_LETTER: Final = "see its dead letter: spanwire browse {target}; spanwire queue retry {target} sends it back"
ADVICE: Final = {
    DIED_OF_AGE: SEE_LETTER,
    departures.DEAD_LETTERED: SEE_LETTER,
    departures.EXPIRED: "send with a longer time to live; processExpired and processNonPersistent keep dead letters",
    departures.DISCARDED: "let the deadLetterStrategy keep it: processNonPersistent, and no discardingDLQBrokerPlugin",
    departures.MOVED: "look there: spanwire why queue {target}",
    departures.REMOVED: "send it again",
    departures.SENT_NOWHERE: "subscribe to {name} before, with a durable subscription, or send to a queue",
    departures.DUPLICATE: "nothing, if a client repeated its send; else give each message an id of its own",
    departures.SECOND_COPY: "nothing: each subscriber gets the message once",
    departures.PUSHED_OUT: "nothing, or raise ringSize in the <policyEntry> of the queue",
    departures.REPLACED: "nothing: give messages that must all be read different keys, or none",
    departures.DUPLICATE_ID: "nothing, if it was sent again; else give each message an _AMQ_DUPL_ID of its own",
}
SWEPT: Final = {
    departures.EXPIRED: "expired",
    departures.PUSHED_OUT: "pushed out of a ring",
    departures.REPLACED: "replaced by newer ones of their keys",
}
MAX_SWEEPS_SHOWN: Final = 10  # removals of unread messages named in one answer


def explain_departure(departure: Departure, subject: str) -> Explanation:
    """Return why the message of ``departure`` is gone."""
    kind, detail = departure.kind, departure.detail
    name = departure.destination.qualified_name
    target = "" if departure.target is None else departure.target.qualified_name
    died = kind == departures.DEAD_LETTERED and detail == EXPIRED
    key = DIED_OF_AGE if died else kind
    at = clock_text(departure.wall_ms)
    if departure.until_ms > departure.wall_ms:
        at = f"a time from {at} to {clock_text(departure.until_ms)}"
    sentence = SENTENCES[key].format(name=name, target=target, at=at)
    explanation = Explanation(subject, departures.KINDS[departures.EXPIRED if died else kind], sentence)
    if detail and kind == departures.DUPLICATE_ID:
        detail = f"duplicate of another message with the same _AMQ_DUPL_ID, sent by connection {detail}"
    elif detail and kind in (departures.DUPLICATE, departures.SECOND_COPY):
        detail = f"duplicate of the message with the same id, sent by connection {detail}"
    if detail:
        explanation.saw(detail, name, departure.wall_ms)
    if departure.deliveries > 0:
        text = f"delivered {counted(departure.deliveries, 'time')} before, without an acknowledgement"
        explanation.saw(text, name, departure.wall_ms)
    if not explanation.evidence:
        explanation.saw(sentence, name, departure.wall_ms)
    explanation.advise(ADVICE[key].format(name=name, target=quoted(target)))
    return explanation


def explain_unknown(memory: Departures, began_ms: int, subject: str, now: Time, is_stored: bool) -> Explanation:
    """Return the explanation of a message without a location.

    Args:
        memory: the memory of departures.
        began_ms: the start of the broker in milliseconds since 1970.
        subject: the message for people.
        now: the time of the question.
        is_stored: True if the audit of producers knows that the store has had the message.
    """
    if is_stored:
        sentence = "the broker has taken it, and has it no more: most likely a consumer has acknowledged it"
    else:
        sentence = "the broker has no such message, and does not remember one"
    explanation = Explanation(subject, "acknowledged" if is_stored else UNKNOWN, sentence)
    if memory.limit == 0:
        explanation.saw(
            'the memory of departures is switched off (rememberedDepartures="0")', "memory of departures", now.wall_ms
        )
    else:
        begins = max(began_ms, memory.losses.begins_ms)
        explanation.saw(
            f"the memory of departures begins at {clock_text(begins)} and has {len(memory.losses.entries)} messages",
            "memory of departures", begins,
        )  # fmt: skip
    for sweep in list(memory.sweeps)[-MAX_SWEEPS_SHOWN:]:
        word = SWEPT.get(sweep.kind, "removed or purged")
        name = sweep.destination.qualified_name
        explanation.saw(f"{counted(sweep.count, 'message')} {word} unread, so that no id is known", name, sweep.wall_ms)
    explanation.advise(
        "name its queue, too, if you know it (--queue on the command line), and ask the other brokers of the network"
    )
    if is_stored:
        explanation.advise("ask the consumers: the broker keeps no list of what was acknowledged")
    else:
        explanation.advise("check the id, and whether the producer's send was answered")
    return explanation
