"""Checks of the clients in ``--clients FILE``, and of client URIs in the brokers' files."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from spanwire.model.destination import QUEUE, TEMP_QUEUE, Destination
from spanwire.model.errors import ConfigurationError
from spanwire.service.network_lint.lint_findings import LintFindings, probes
from spanwire.service.network_lint.lint_routes import REPLAY_REMEDY, is_uneven, misleading_conduit, no_way_back
from spanwire.service.network_lint.network_clients import DescribedClient
from spanwire.service.network_lint.network_files import NetworkFiles
from spanwire.service.network_lint.network_plan import RULE_TEMPORARY, NetworkPlan

REPLIES: Final = Destination(TEMP_QUEUE, "ID:SPANWIRE.PROBE:1:1")
SAMPLE_MESSAGES: Final = 12


class ClientLint:
    """Findings 4, 5, 14, 17, 18 and 20 of described clients."""

    def __init__(self, files: NetworkFiles, clients: tuple[DescribedClient, ...], findings: LintFindings) -> None:
        self._files: Final = files
        self._plan: Final = files.plan
        self._findings: Final = findings
        named = tuple(DescribedClient(one.location, uri=one.uri) for facts in files.facts for one in facts.clients)
        self._clients: Final = [(client, self._brokers(client)) for client in (*clients, *named)]

    def _brokers(self, client: DescribedClient) -> list[str]:
        """Return the possible brokers of a client."""
        if client.uri:
            return self._files.brokers_at(client.uri)
        for broker in self._plan.brokers.values():
            if client.broker in (broker.name, broker.broker_id):
                return [broker.name]
        known = ", ".join(self._plan.brokers)
        raise ConfigurationError(f"{client.location}: there is no broker {client.broker!r}; there are {known}")

    def check(self) -> None:
        """Check all clients."""
        queues = {one: None for client, _ in self._clients for one in client.consumes if one.is_queue}
        for queue in queues:
            self._selectors(queue)
            self._uneven(queue)
        for client, brokers in self._clients:
            if client.is_fanout:
                self._fan_out(client, brokers)
            else:
                self._failover(client, brokers)
            if client.requests:
                self._replies(client, brokers)
            if client.group_size:
                self._groups(client, brokers)

    def _consumers(self, queue: Destination) -> list[tuple[DescribedClient, str]]:
        """Return the consumers of a queue, each with the first possible broker."""
        return [(client, brokers[0]) for client, brokers in self._clients if queue in client.consumes and brokers]

    def _senders(self, destination: Destination) -> list[str]:
        """Return the brokers with senders to a destination; all brokers if no sender is described."""
        findings = {name: None for client, brokers in self._clients if destination in client.sends for name in brokers}
        return list(findings) or list(self._plan.brokers)

    def _selectors(self, queue: Destination) -> None:
        """Check 4: a conduit forwards messages to a broker without a consumer that selects the messages."""
        consumers = self._consumers(queue)
        for near in self._senders(queue):
            for one, wrong in consumers:
                for other, right in consumers:
                    if one.selector == other.selector or not one.selector:
                        continue
                    link = misleading_conduit(self._plan, queue, near, wrong, right)
                    if link is not None and not self._findings.has(link.location, 4):
                        self._findings.fault(
                            link.location, 4,
                            f"a conduit looks at no selectors: messages at {near} in {queue} that only the consumer at "
                            f"{right} selects ({other.location}) go to {wrong}, too, and are stuck there",
                            'set conduitSubscriptions="false" for this queue',
                        )  # fmt: skip

    def _uneven(self, queue: Destination) -> None:
        """Check 5: a conduit counts several consumers of a queue as a single consumer."""
        counts: dict[str, int] = {}
        for client, name in self._consumers(queue):
            counts[name] = counts.get(name, 0) + client.consumers
        if len(counts) < 2:
            return
        brokers = list(self._plan.brokers.values())
        each = NetworkPlan(
            brokers, [replace(link, settings=replace(link.settings, conduit=False)) for link in self._plan.links]
        )
        for near in self._senders(queue):
            got = self._plan.shares(near, queue, counts, SAMPLE_MESSAGES)
            even = each.shares(near, queue, counts, SAMPLE_MESSAGES)
            if not is_uneven(got, counts) or is_uneven(even, counts):
                continue
            split = ", ".join(f"{counts[name]} at {name} {share:g}" for name, share in sorted(got.items()))
            links = [link for name in got for link in self._plan.route(near, queue, name).links]
            for link in links:
                if link.settings.conduit and not self._findings.has(link.location, 5):
                    self._findings.fault(
                        link.location, 5,
                        f"all consumers of {queue} at {link.far} count as one: of {SAMPLE_MESSAGES} messages sent at "
                        f"{near} {split}",
                        'set conduitSubscriptions="false" if each is to get as much',
                    )  # fmt: skip

    def _failover(self, client: DescribedClient, brokers: list[str]) -> None:
        """Check 14: a consumer fails over from one broker to another."""
        queues = [one for one in client.consumes if one.is_queue]
        if not client.consumes and not client.sends:
            queues = probes(self._files, QUEUE)  # a URI without a description may belong to any client
        for queue in queues:
            for before in brokers:
                for after in brokers:
                    if before != after and no_way_back(self._plan, queue, after, before):
                        location = self._files.facts_of(before).location("policyEntries")
                        if not self._findings.has(location, 14):
                            self._findings.fault(
                                location, 14,
                                f"messages in {queue} that {before} got from {after} stay behind when their consumer "
                                f"fails over to {after} ({client.location})",
                                REPLAY_REMEDY,
                            )  # fmt: skip

    def _fan_out(self, client: DescribedClient, brokers: list[str]) -> None:
        """Check 18: a client sends each message to several brokers of one network."""
        for destination in client.sends or probes(self._files, QUEUE):
            for goal in self._plan.brokers:
                arrived = [name for name in brokers if self._plan.route(name, destination, goal).arrived]
                if len(arrived) > 1:
                    self._findings.fault(
                        client.location, 18,
                        f"a fanout client sends to {', '.join(arrived)}, which are linked: a consumer at {goal} gets "
                        f"{len(arrived)} copies of each message",
                        "let it use failover: in place of fanout:, or brokers that are not linked",
                    )  # fmt: skip
                    return

    def _replies(self, client: DescribedClient, brokers: list[str]) -> None:
        """Check 17: replies to a temporary queue."""
        for asked in client.sends:
            for _, replier in self._consumers(asked):
                for name in brokers:
                    if name == replier or not self._plan.route(name, asked, replier).arrived:
                        continue
                    back = self._plan.route(replier, REPLIES, name)
                    for refusal in [] if back.arrived else back.refusals:
                        if refusal.rule == RULE_TEMPORARY and not self._findings.has(refusal.link.location, 17):
                            self._findings.fault(
                                refusal.link.location, 17,
                                f"bridgeTempDestinations is false: an answer from {replier} to a temporary queue at "
                                f"{name} does not come back ({client.location})",
                                'set bridgeTempDestinations="true", or keep requesters and repliers at one broker',
                            )  # fmt: skip

    def _groups(self, client: DescribedClient, brokers: list[str]) -> None:
        """Check 20: message groups larger than the window of a bridge."""
        for destination in client.sends:
            for _, goal in self._consumers(destination):
                for name in brokers:
                    for link in self._plan.route(name, destination, goal).links:
                        if link.settings.prefetch_size < client.group_size:
                            self._findings.fault(
                                link.location, 20,
                                f"prefetchSize is {link.settings.prefetch_size}, and a message group of "
                                f"{client.group_size} messages ({client.location}) whose consumer is slow fills it and "
                                f"holds up all other groups",
                                f'set prefetchSize="{client.group_size}" at least',
                            )  # fmt: skip
