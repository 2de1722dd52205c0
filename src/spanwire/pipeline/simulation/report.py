"""Writes the outcome of a simulation for people, for programs, and in files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.simulation.reach import UNREACHED
from spanwire.pipeline.simulation.simulation import Outcome, Pairs, Sharing

HOTTEST: Final = 5  # brokers and links with most advisories that are shown
SHOWN_HOPS: Final = 8

Summary = dict[str, object]


@dataclass(frozen=True, slots=True)
class Naming:
    """Names of the network and of its brokers; without ``brokers`` the numbers are the names."""

    network: str
    destination: str
    connectors: int
    brokers: Sequence[str] | None = None

    def broker(self, number: int) -> str:
        """Return the name of a broker."""
        return str(number) if self.brokers is None else self.brokers[number]


def summary(outcome: Outcome, naming: Naming, seconds: float, resident_mib: int) -> Summary:
    """Return all numbers by name."""
    graph, demand = outcome.network.graph, outcome.demand
    subscriptions = np.bincount(graph.near, weights=demand.subscriptions, minlength=graph.brokers)
    sent = np.bincount(graph.far, weights=demand.frames, minlength=graph.brokers)
    return {
        "network": naming.network,
        "brokers": graph.brokers,
        "connectors": naming.connectors,
        "links": graph.links,
        "destination": naming.destination,
        "consumers_at": int(outcome.network.goals.size),
        "consumers_at_each": outcome.network.consumers,
        "demand": {
            "exact": demand.exact,
            "subscriptions": _whole(demand.subscriptions.sum()),
            "by_hops": _by_hops(demand.by_hops),
            "brokers_with_some": int((subscriptions > 0).sum()),
            "most_at_a_broker": _whole(subscriptions.max(initial=0)),
            "most_of_a_link": _whole(demand.subscriptions.max(initial=0)),
        },
        "advisories": {
            "exact": demand.exact,
            "frames": _whole(demand.frames.sum()),
            "per_broker": float(demand.frames.sum() / graph.brokers),
            "most_of_a_broker": _whole(sent.max(initial=0)),
            "per_link": float(demand.frames.sum() / max(graph.links, 1)),
            "most_of_a_link": _whole(demand.frames.max(initial=0)),
            "hot_brokers": [
                {"broker": naming.broker(number), "frames": _whole(sent[number])} for number in _hottest(sent)
            ],
            "hot_links": [
                {
                    "from": naming.broker(int(graph.far[number])),
                    "to": naming.broker(int(graph.near[number])),
                    "frames": _whole(demand.frames[number]),
                }
                for number in _hottest(demand.frames)
            ],
        },
        "heard_of": _pairs(outcome.pairs, outcome),
        "messages": _messages(outcome.sharing),
        "no_way_to_any_consumer": int((outcome.away == UNREACHED).sum()),
        "farthest_from_a_consumer": int(outcome.away.max(initial=0)),
        "seconds": round(seconds, 1),
        "driver_mib": resident_mib,
    }


def _pairs(pairs: Pairs, outcome: Outcome) -> Summary:
    rules, goals = outcome.network.rules, outcome.network.goals.size
    values: Summary = {
        "consumers_at": pairs.goals,
        "sampled": pairs.goals < goals,
        "pairs": int(pairs.heard.sum()),
        "by_hops": _by_hops(pairs.heard),
        "dead_ends": int(pairs.heard[rules.farthest_message + 1 :].sum()) if np.ndim(rules.message_ttl) == 0 else None,
    }
    if pairs.arrived is not None:
        values["copies_by_hops"] = _by_hops(pairs.arrived)
    return values


def _messages(sharing: Sharing | None) -> Summary | None:
    if sharing is None:
        return None
    return {
        "from_brokers": sharing.starts,
        "arrived": float(sharing.arrived.sum()),
        "arrived_by_hops": _by_hops(sharing.arrived, first=0),
        "stuck": float(sharing.stuck.sum()),
        "stuck_by_hops": _by_hops(sharing.stuck, first=0),
        "not_heard": sharing.not_heard,
        "no_way": sharing.no_way,
    }


def _by_hops(amounts: np.ndarray, first: int = 1) -> dict[str, int | float]:
    return {str(hops): _whole(size) for hops, size in enumerate(amounts.tolist()) if hops >= first and size}


def _whole(amount: float) -> int | float:
    return int(amount) if float(amount).is_integer() else round(float(amount), 6)


def _hottest(amounts: np.ndarray) -> list[int]:
    count = min(HOTTEST, amounts.size)
    indexes = np.argpartition(-amounts, count - 1)[:count] if count else np.zeros(0, np.int64)
    return [int(index) for index in indexes[np.argsort(-amounts[indexes], kind="stable")] if amounts[index] > 0]


def summary_lines(outcome: Outcome, values: Summary, naming: Naming) -> list[str]:
    """Return the numbers as lines for people."""
    goals = outcome.network.goals.size
    return [
        f"{naming.network}: {values['brokers']:,} brokers, {values['connectors']:,} connectors, "
        f"{values['links']:,} links",
        f"consumers of {naming.destination} at {goals:,} brokers, {outcome.network.consumers:,} at each",
        *_demand_lines(outcome),
        *_pair_lines(outcome),
        *_message_lines(outcome),
        *_advisory_lines(outcome, naming),
        f"{'took':<12}{values['seconds']} s, {values['driver_mib']:,} MiB",
    ]


def _demand_lines(outcome: Outcome) -> list[str]:
    graph, demand = outcome.network.graph, outcome.demand
    subscriptions = np.bincount(graph.near, weights=demand.subscriptions, minlength=graph.brokers)
    most = "" if demand.exact else "at most "
    subscriptions_text = (
        f"{most}{_amount(demand.subscriptions.sum())} subscriptions of bridges at {(subscriptions > 0).sum():,}"
        f" brokers, {_amount(subscriptions.max(initial=0))} at the one that has most"
    )
    text_lines = [f"{'demand':<12}{subscriptions_text}", f"{'':<12}by hops: {_join_amounts(demand.by_hops)}"]
    if not demand.exact:
        text_lines.append(f"{'':<12}at most: too many to follow each, so ways that meet themselves are counted, too")
    return text_lines


def _pair_lines(outcome: Outcome) -> list[str]:
    pairs, rules = outcome.pairs, outcome.network.rules
    sampled = f" (sampled: {pairs.goals:,} of them)" if pairs.goals < outcome.network.goals.size else ""
    each = pairs.heard / max(pairs.goals, 1)
    text_lines = [
        f"{'heard of':<12}each broker with consumers{sampled} at {_amount(each.sum())} others on average",
        f"{'':<12}by hops: {_join_amounts(each)}",
    ]
    if pairs.arrived is not None:
        copies = pairs.arrived / max(pairs.goals, 1)
        text_lines.append(
            f"{'copies':<12}each of them has those from {_amount(copies.sum())} others; "
            f"by hops: {_join_amounts(copies)}"
        )
    elif rules.is_topic:
        text_lines.append(f"{'copies':<12}not looked at, as messageTTL is not the same everywhere")
    if np.ndim(rules.message_ttl) == 0:
        dead = pairs.heard[rules.farthest_message + 1 :].sum()
        text_lines.append(
            f"{'dead ends':<12}{dead:,} of {pairs.heard.sum():,} times a broker hears of consumers that its messages "
            "do not reach"
        )
    return text_lines


def _message_lines(outcome: Outcome) -> list[str]:
    sharing = outcome.sharing
    if outcome.network.rules.is_topic:
        return []
    if sharing is None:
        return [f"{'messages':<12}not followed, as demand is not known exactly"]
    chosen = "" if sharing.starts == outcome.network.graph.brokers else " (sampled)"
    percent = 100 * sharing.arrived.sum() / max(sharing.starts, 1)
    text_lines = [
        f"{'messages':<12}one from each of {sharing.starts:,} brokers{chosen}: {_amount(sharing.arrived.sum())} arrive "
        f"({percent:.1f} %), {_amount(sharing.stuck.sum())} are stuck on their way",
        f"{'':<12}by hops: {_join_amounts(sharing.arrived, first=0)}",
    ]
    if sharing.stuck.sum() > 0:
        text_lines.append(f"{'':<12}stuck after hops: {_join_amounts(sharing.stuck, first=0)}")
    if sharing.not_heard or sharing.no_way:
        text_lines.append(
            f"{'':<12}stay where they are sent: {_amount(sharing.not_heard)} where no consumer is heard of, "
            f"{_amount(sharing.no_way)} from where no way leads to one"
        )
    return text_lines


def _advisory_lines(outcome: Outcome, naming: Naming) -> list[str]:
    graph, demand = outcome.network.graph, outcome.demand
    sent = np.bincount(graph.far, weights=demand.frames, minlength=graph.brokers)
    most = "" if demand.exact else "at most "
    total = demand.frames.sum()
    text_lines = [
        f"{'advisories':<12}{most}{_amount(total)} frames when these consumers come, as many when they leave",
        f"{'':<12}{_amount(total / graph.brokers)} of a broker ({_amount(sent.max(initial=0))} at most), "
        f"{_amount(total / max(graph.links, 1))} over a link ({_amount(demand.frames.max(initial=0))} at most)",
    ]
    brokers = [f"{naming.broker(number)} sends {_amount(sent[number])}" for number in _hottest(sent)]
    links = [
        f"{naming.broker(int(graph.far[link]))} to {naming.broker(int(graph.near[link]))} "
        f"{_amount(demand.frames[link])}"
        for link in _hottest(demand.frames)
    ]
    return (
        [*text_lines, f"{'hot brokers':<12}{', '.join(brokers)}", f"{'hot links':<12}{', '.join(links)}"]
        if total
        else text_lines
    )


def _join_amounts(amounts: np.ndarray, first: int = 1) -> str:
    texts = [f"{hops}: {_amount(size)}" for hops, size in enumerate(amounts.tolist()) if hops >= first and size]
    shown = texts[:SHOWN_HOPS]
    return ", ".join([*shown, f"… {texts[-1]}"] if len(texts) > SHOWN_HOPS else shown) or "none"


def _amount(size: float) -> str:
    if size >= 1e15:
        return f"{size:.1e}"
    return f"{size:,.0f}" if size >= 100 or float(size).is_integer() else f"{size:,.2f}"


def make_directory(directory: Path) -> None:
    """Create the directory for `write`, before the simulation.

    Raises:
        ConfigurationError: the directory cannot be created.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"{directory}: {error.strerror or error}") from None


def write(directory: Path, outcome: Outcome, values: Summary, naming: Naming) -> None:
    """Write brokers.parquet, links.parquet and summary.json into an existing directory.

    Raises:
        ConfigurationError: a file cannot be written.
    """
    graph, demand = outcome.network.graph, outcome.demand
    names = pa.array(range(graph.brokers) if naming.brokers is None else naming.brokers)
    at = np.zeros(graph.brokers, np.int64)
    at[outcome.network.goals] = outcome.network.consumers
    brokers = {
        "broker": names,
        "consumers": at,
        "hops_to_consumers": outcome.away,
        "subscriptions": np.bincount(graph.near, weights=demand.subscriptions, minlength=graph.brokers),
        "advisories_sent": np.bincount(graph.far, weights=demand.frames, minlength=graph.brokers),
        "advisories_received": np.bincount(graph.near, weights=demand.frames, minlength=graph.brokers),
    }
    links = {
        "near": names.take(pa.array(graph.near)),
        "far": names.take(pa.array(graph.far)),
        "subscriptions": demand.subscriptions,
        "advisories": demand.frames,
        "hops_to_nearest": demand.nearest,
    }
    try:
        pyarrow.parquet.write_table(pa.table(brokers), directory / "brokers.parquet")
        pyarrow.parquet.write_table(pa.table(links), directory / "links.parquet")
        (directory / "summary.json").write_text(json.dumps(values, indent=2) + "\n", "utf-8")
    except OSError as error:
        raise ConfigurationError(f"{directory}: {error.strerror or error}") from None
