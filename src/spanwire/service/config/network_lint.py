"""What is likely wrong with the connectors of a network, found in its files by the rules that bridges go by.

A fault does something else than its owner wants; a hint may be just what is wanted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from spanwire.model.destination import QUEUE, TOPIC, Destination
from spanwire.network.connector import NetworkConnectorSettings
from spanwire.network.plan import PlannedLink
from spanwire.network.settings import DEFAULT_NAME
from spanwire.service.config.model import DEFAULT_BROKER_NAME, BrokerConfiguration
from spanwire.service.config.network_plan import NetworkFiles, place_of

PROBE_QUEUE: Final = Destination(QUEUE, "SPANWIRE.PROBE")
PROBE_TOPIC: Final = Destination(TOPIC, "SPANWIRE.PROBE")
CONSUMER_ADVISORIES: Final = Destination(TOPIC, "ActiveMQ.Advisory.Consumer.Queue.Q")
SMALL_PREFETCH: Final = 100  # messages; a group is often larger
READER_FINDINGS: Final = (
    ("is called", 8, "two connectors of one name between the same brokers cannot be told apart"),
    ("prefetchSize", 16, "a bridge's consumer needs a window; it never pulls"),
    ("fanout", 18, "what is sent to several brokers of one network comes to each consumer several times"),
)


@dataclass(frozen=True, slots=True)
class LintFinding:
    """One thing, its number, where it stands, why it matters and what mends it."""

    place: str
    number: int
    is_fault: bool
    why: str
    mend: str

    def __str__(self) -> str:
        kind = "fault" if self.is_fault else "hint"
        return f"{self.place}: {kind} {self.number}: {self.why}; {self.mend}"


class NetworkLint:
    """Looks at the files of one network."""

    def __init__(self, files: NetworkFiles) -> None:
        self._files: Final = files
        self._plan: Final = files.plan
        self._found: list[LintFinding] = []

    def findings(self) -> list[LintFinding]:
        """All, in the order of the files."""
        self._found = []
        for line in self._files.refused:
            self._of_reader(line)
        self._names()
        checks: tuple[Callable[[BrokerConfiguration, NetworkConnectorSettings], None], ...] = (
            self._advisories, self._reach, self._loops, self._conduits, self._lists, self._rest, self._rights,
        )  # fmt: skip
        for configuration in self._files.configurations:
            for connector in configuration.network_connectors:
                for check in checks:
                    check(configuration, connector)
        self._both_ways()
        self._replay()
        return self._found

    def _add(self, place: str, number: int, is_fault: bool, why: str, mend: str) -> None:
        finding = LintFinding(place, number, is_fault, why, mend)
        if finding not in self._found:
            self._found.append(finding)

    def _of_reader(self, line: str) -> None:
        """What the reader refuses, under its number when it is one of ours."""
        parts = line.split(":", 2)
        place, text = (":".join(parts[:2]), parts[2].strip()) if len(parts) == 3 else ("", line)
        for word, number, why in READER_FINDINGS:
            if word in text:
                self._add(place, number, True, why, text)
                return
        self._add(place, 0, True, text, "the file cannot be looked at before")

    def _names(self) -> None:
        """10: brokers are told apart by id and name."""
        seen: dict[str, BrokerConfiguration] = {}
        for configuration in self._files.configurations:
            for what, value in (("brokerName", configuration.broker_name), ("brokerId", configuration.broker_id)):
                other = seen.get(f"{what} {value}")
                if value is None:
                    continue
                if other is not None:
                    self._add(
                        f"{configuration.source}:1", 10, True,
                        f"{what} {value!r} is also that of {other.source}, and loops are found by it",
                        f"give each broker a {what} of its own",
                    )  # fmt: skip
                seen[f"{what} {value}"] = configuration

    def _links_of(self, configuration: BrokerConfiguration, connector: NetworkConnectorSettings) -> list[PlannedLink]:
        place = place_of(configuration, connector)
        return [link for link in self._plan.links if link.place == place]

    def _advisories(self, near: BrokerConfiguration, connector: NetworkConnectorSettings) -> None:
        """1: without advisories nobody hears of consumers."""
        if connector.bridge.static_bridge:
            return
        for link in self._links_of(near, connector):
            for name in (link.near, link.far):
                if not self._plan.brokers[name].advisories:
                    self._add(
                        link.place, 1, True,
                        f"broker {name} has advisorySupport=false, so connector {connector.bridge.name} never hears of "
                        f"consumers",
                        'set advisorySupport="true" there, or staticBridge="true" with staticallyIncludedDestinations',
                    )  # fmt: skip

    def _reach(self, near: BrokerConfiguration, connector: NetworkConnectorSettings) -> None:
        """2: a message must be allowed as many hops as its longest way has."""
        for link in self._links_of(near, connector):
            there = [
                (hops + 1, name)
                for name, hops in self._plan.distances(link.far).items()
                if self._plan.distances(link.near).get(name, 0) == hops + 1
            ]
            here: list[tuple[int, str]] = []
            for name in self._plan.brokers:
                distances = self._plan.distances(name)
                if link.near in distances and distances.get(link.far, 0) == distances[link.near] + 1:
                    here.append((distances[link.near] + 1, name))
            hops, name = max(there, default=(0, ""))
            if 0 <= link.settings.consumer_ttl < hops:
                self._add(
                    link.place, 2, True,
                    f"a consumer at {name} is {hops} hops from {link.near} and consumerTTL is "
                    f"{link.settings.consumer_ttl}, so it is never heard of",
                    f'set networkTTL="{hops}", if messages are to go that far',
                )  # fmt: skip
            hops, name = max(here, default=(0, ""))
            if 0 <= link.settings.message_ttl < hops:
                self._add(
                    link.place, 2, True,
                    f"a message from {name} makes {hops} hops to {link.far} and messageTTL is "
                    f"{link.settings.message_ttl}, so it stays at {link.near}",
                    f'set networkTTL="{hops}", if messages are to come that far',
                )  # fmt: skip

    def _loops(self, near: BrokerConfiguration, connector: NetworkConnectorSettings) -> None:
        """3 and 11: several ways to one consumer."""
        settings = connector.bridge
        place = place_of(near, connector)
        if settings.consumer_ttl not in (0, 1) and not settings.suppress_queue_duplicates and self._plan.has_loop():
            self._add(
                place, 3, True,
                f"consumerTTL is {settings.consumer_ttl} in a network with loops: each consumer counts once for every "
                f"way to it, and messages go astray",
                'set consumerTTL="1" (messageTTL may be higher), or suppressDuplicateQueueSubscriptions="true"',
            )  # fmt: skip
        if settings.suppress_queue_duplicates:
            for one in self._files.configurations:
                if one.broker_id is None:
                    self._add(
                        place, 11, True,
                        f"suppressDuplicateQueueSubscriptions goes by broker ids, and broker {one.broker_name} has "
                        f"another one after each start",
                        f"set brokerId in {one.source}",
                    )  # fmt: skip

    def _conduits(self, near: BrokerConfiguration, connector: NetworkConnectorSettings) -> None:
        """4, 5 and 6: who counts as one consumer."""
        settings = connector.bridge
        place = place_of(near, connector)
        forward = {link.far for link in self._plan.links if link.near == near.broker_name}
        if settings.conduit and settings.permits(PROBE_QUEUE):
            if len(forward) > 1:
                self._add(
                    place, 4, False,
                    f"{len(forward)} ways lead on from {near.broker_name} and a conduit looks at no selectors: "
                    f"consumers of one queue with different selectors at different brokers get messages of each other, "
                    f"which are stuck there",
                    'set conduitSubscriptions="false" for queues with selectors',
                )  # fmt: skip
            if not settings.decrease_priority:
                self._add(
                    place, 5, False,
                    "all remote consumers of a queue get together what one consumer here gets (12 messages: 6, 3, 3)",
                    'set conduitSubscriptions="false" if each is to get as much (4, 4, 4)',
                )  # fmt: skip
        if not settings.conduit and settings.permits(PROBE_TOPIC):
            self._add(
                place, 6, True,
                "without a conduit each remote consumer of a topic gets every message once for each of them",
                'exclude <topic physicalName="&gt;"/> here and give topics a connector of their own with a conduit',
            )  # fmt: skip

    def _lists(self, near: BrokerConfiguration, connector: NetworkConnectorSettings) -> None:
        """12 and 13: static destinations."""
        settings = connector.bridge
        place = place_of(near, connector)
        for one in settings.static:
            if any(pattern.matches(one) or pattern == one for pattern in settings.excluded):
                self._add(
                    place, 12, True, f"{one} is static and excluded, and the exclusion wins: it stays here",
                    "remove it from one of the lists",
                )  # fmt: skip
            if one.is_pattern:
                self._add(
                    place, 13, False, f"{one} is a wildcard among static destinations, which older brokers do not know",
                    "name each destination if one of those takes part",
                )  # fmt: skip

    def _rest(self, near: BrokerConfiguration, connector: NetworkConnectorSettings) -> None:
        """9, 17 and 20."""
        settings = connector.bridge
        place = place_of(near, connector)
        unnamed = [
            word
            for word, value, default in (
                ("name of the connector", settings.name, DEFAULT_NAME),
                ("brokerName", near.broker_name, DEFAULT_BROKER_NAME),
            )
            if value == default
        ]
        if unnamed and settings.permits(PROBE_TOPIC):
            self._add(
                place, 9, False,
                f"the {' and the '.join(unnamed)} is not set and becomes part of durable subscriptions: who names it "
                f"later leaves them behind, with messages that nobody takes",
                "name it before durable subscribers come",
            )  # fmt: skip
        if not settings.bridge_temporary:
            self._add(
                place, 17, False, "replies to temporary destinations do not come back over this connector",
                "keep requesters and repliers at one broker, or let bridgeTempDestinations be true",
            )  # fmt: skip
        if settings.prefetch_size < SMALL_PREFETCH:
            self._add(
                place, 20, False,
                f"a message group of more than {settings.prefetch_size} messages whose consumer is slow fills the "
                f"window and holds up all other groups",
                "raise prefetchSize if message groups cross this connector",
            )  # fmt: skip

    def _rights(self, near: BrokerConfiguration, connector: NetworkConnectorSettings) -> None:
        """19: what the user of the bridge may do at the other end."""
        settings = connector.bridge
        user = settings.remote_user_name or settings.user_name
        for link in self._links_of(near, connector):
            far = self._files.named(link.far)
            if link.reverse or far is None or far.authentication is None:
                continue
            if user is None:
                if not far.authentication.lets_anybody_in:
                    self._add(
                        link.place, 19, True, f"broker {link.far} lets nobody in without a login",
                        "set userName and password, or remoteUserName and remotePassword",
                    )  # fmt: skip
            elif far.authorization is not None and not settings.static_bridge and not _may_listen(far, user):
                self._add(
                    link.place, 19, True,
                    f"user {user!r} may not read ActiveMQ.Advisory.Consumer.> at broker {link.far}, so the bridge "
                    f"never hears of consumers",
                    f"give its group read on <authorizationEntry topic=\"ActiveMQ.Advisory.&gt;\"> in {far.source}",
                )  # fmt: skip

    def _both_ways(self) -> None:
        """7: one duplex link is enough."""
        opened = [link for link in self._plan.links if link.settings.duplex and not link.reverse]
        for link in opened:
            for other in opened:
                if (other.near, other.far) == (link.far, link.near) and not _apart(link, other):
                    self._add(
                        link.place, 7, True,
                        f"{link.near} and {link.far} both open a duplex link to the other: messages have two ways in "
                        f"each direction",
                        'leave duplex="true" at one end and remove the other connector',
                    )  # fmt: skip

    def _replay(self) -> None:
        """14 and 15: messages whose consumer has moved to another broker."""
        pairs = {(link.near, link.far): link for link in self._plan.links if link.settings.permits(PROBE_QUEUE)}
        for configuration in self._files.configurations:
            policies = [entry.queue.bridges for entry in configuration.policies]
            replays = any(policy is not None and policy.replays for policy in policies)
            for (near, far), link in pairs.items():
                if near != configuration.broker_name or (far, near) not in pairs:
                    continue
                if not replays:
                    self._add(
                        link.place, 14, False,
                        f"messages that came from {far} do not go back there when their consumer fails over to it",
                        "set replayWhenNoConsumers of conditionalNetworkBridgeFilterFactory in a policyEntry",
                    )  # fmt: skip
                elif link.settings.message_ttl == 1:
                    self._add(
                        link.place, 2, True, "messages may go back to where they came from, and messageTTL is 1",
                        "raise networkTTL to the hops there and back",
                    )  # fmt: skip
            if replays:
                self._add(
                    f"{configuration.source}:1", 15, False,
                    "an ActiveMQ before 5.9 takes a message that comes back for a duplicate",
                    'set enableAudit="false" in the policyEntry of such a broker',
                )  # fmt: skip


def _apart(one: PlannedLink, other: PlannedLink) -> bool:
    """Whether two connectors carry different kinds: queues the one, topics the other."""
    return all(
        not (one.settings.permits(probe) and other.settings.permits(probe)) for probe in (PROBE_QUEUE, PROBE_TOPIC)
    )


def _may_listen(far: BrokerConfiguration, user: str) -> bool:
    """Whether one of the user's groups may read the advisories. Of users in files or certificates nothing is known."""
    authentication, authorization = far.authentication, far.authorization
    assert authentication is not None and authorization is not None
    groups: set[str] = set()
    for module in authentication.all_modules:
        if module.files is not None or module.certified or module.certified_files is not None:
            return True
        for known in module.users:
            if known.name == user:
                groups |= set(known.groups)
    if not groups:
        return True  # a login that fails is told by the broker itself
    allowed: set[str] = set() if authorization.default is None else set(authorization.default.read)
    for entry in authorization.entries:
        if entry.destination.matches(CONSUMER_ADVISORIES):
            allowed |= set(entry.access.read)
    return bool(groups & allowed) or "*" in allowed
