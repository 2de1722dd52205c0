"""Why a message is gone, from the memory of departures."""

from __future__ import annotations

from typing import Final

from spanwire.broker.dispatch import departures
from spanwire.broker.dispatch.departures import Departure, Departures
from spanwire.broker.explanation.explanation import UNKNOWN, Explanation, clock_text, counted, quoted
from spanwire.broker.routing.dead_letters import EXPIRED
from spanwire.model.environment import Time

MAX_SWEEPS_SHOWN: Final = 10  # removals of unread messages named in one answer


def explain_departure(departure: Departure, subject: str) -> Explanation:
    """Return why the message of ``departure`` is gone."""
    kind = departure.kind
    name = departure.destination.qualified_name
    at = clock_text(departure.wall_ms)
    detail = departure.detail
    target = "" if departure.target is None else departure.target.qualified_name
    cause = departures.KINDS[kind]
    if kind == departures.DEAD_LETTERED:
        cause = "expired" if detail == EXPIRED else cause
        what = "expired" if detail == EXPIRED else "was given up"
        sentence = f"it {what} in {name} at {at}, and a dead letter went to {target}"
        advice = f"see it there: spanwire browse {quoted(target)}; spanwire queue retry {quoted(target)} sends it back"
    elif kind == departures.EXPIRED:
        sentence = f"it expired in {name} at {at}, and left no dead letter"
        advice = "send with a longer time to live, or consume sooner; processExpired of the policy keeps dead letters"
    elif kind == departures.DISCARDED:
        sentence = f"it was given up in {name} at {at}, and no policy wanted a dead letter"
        advice = "set a deadLetterStrategy that keeps it: processNonPersistent, or no discardingDLQBrokerPlugin"
    elif kind == departures.MOVED:
        sentence = f"an operator moved it from {name} to {target} at {at}"
        advice = f"look there: spanwire why queue {quoted(target)}"
    elif kind == departures.REMOVED:
        sentence = f"an operator removed it from {name} at {at}"
        advice = "send it again"
    elif kind == departures.SENT_NOWHERE:
        sentence = f"it was sent nowhere at {at}: topic {name} had no subscriber"
        advice = f"subscribe to {name} before messages are sent, with a durable subscription, or send to a queue"
    elif kind == departures.COPY:
        sentence = f"a copy of it that came over a second route to {name} was dropped at {at}: the first one counts"
        advice = "nothing: each subscriber gets the message once"
    else:
        sentence = (
            f"it was sent again to {name} and dropped at {at}: the broker had taken the message of this id before"
        )
        advice = "nothing, if a client repeated its send; else give each message an id of its own"
    explanation = Explanation(subject, cause, sentence)
    if detail and kind in (departures.DUPLICATE, departures.COPY):
        detail = f"duplicate of the message with the same id, sent by connection {detail}"
    if detail:
        explanation.saw(detail, name, departure.wall_ms)
    if departure.deliveries > 0:
        text = f"delivered {counted(departure.deliveries, 'time')} before, without an acknowledgement"
        explanation.saw(text, name, departure.wall_ms)
    if not explanation.evidence:
        explanation.saw(sentence, name, departure.wall_ms)
    explanation.advise(advice)
    return explanation


def explain_unknown(memory: Departures, began_ms: int, subject: str, now: Time, is_stored: bool) -> Explanation:
    """Return what is known of a message that is in no place.

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
        word = "expired" if sweep.kind == departures.EXPIRED else "were removed or purged"
        name = sweep.destination.qualified_name
        explanation.saw(
            f"{counted(sweep.count, 'message')} {word} unread, so that their ids are not known", name, sweep.wall_ms
        )
    explanation.advise("ask with --queue if you know its queue, and the other brokers of the network")
    if is_stored:
        explanation.advise("ask the consumers: the broker keeps no list of what was acknowledged")
    else:
        explanation.advise("check the id, and whether the producer's send was answered")
    return explanation
