"""Checks the connectors of a network in its files, by the rules of bridges.

    NetworkLint(read_network(paths)).findings()

The files say little about clients. Without a description of the clients
(`spanwire.service.network_lint.network_clients`) a finding for certain clients is a hint.
"""

from __future__ import annotations

from typing import Final

from spanwire.model.destination import QUEUE, TOPIC, Destination
from spanwire.network.connector.link import NetworkConnectorSettings
from spanwire.network.demand.bridge_settings import DEFAULT_NAME
from spanwire.service.config.model import BrokerConfiguration
from spanwire.service.config.reference import DEFAULT_BROKER_NAME
from spanwire.service.network_lint.lint_clients import ClientLint
from spanwire.service.network_lint.lint_findings import LintFinding, LintFindings, example, probe
from spanwire.service.network_lint.lint_routes import REPLAY_REMEDY, RouteLint, no_way_back
from spanwire.service.network_lint.network_clients import DescribedClient
from spanwire.service.network_lint.network_files import NetworkFiles, location_of
from spanwire.service.network_lint.network_plan import RULE_ADVISORIES, PlannedLink

CONSUMER_ADVISORIES: Final = Destination(TOPIC, "ActiveMQ.Advisory.Consumer.Queue.Q")
SMALL_PREFETCH: Final = 100  # messages; message groups are often larger
STATIC_WILDCARDS: Final = (5, 11)  # the first version of ActiveMQ with documented static wildcards
REPLAY_KNOWN: Final = (5, 9)  # the first version of ActiveMQ that does not drop a replayed message as a duplicate
READER_FINDINGS: Final = (
    ("is called", 8, "two connectors of one name between the same brokers cannot be told apart"),
    ("prefetchSize", 16, "a bridge's consumer needs a window; it never pulls"),
    ("prefetch_size", 16, "a bridge's consumer needs a window; it never pulls"),
    ("fanout", 18, "what is sent to several brokers of one network comes to each consumer several times"),
)


class NetworkLint:
    """Checks the files of one network.

    ``clients`` None means unknown clients, ``before`` are the earlier files.
    """

    def __init__(
        self,
        files: NetworkFiles,
        clients: tuple[DescribedClient, ...] | None = None,
        before: NetworkFiles | None = None,
    ) -> None:
        self._files: Final = files
        self._plan: Final = files.plan
        self._clients: Final = clients
        self._before: Final = before
        self._findings = LintFindings()

    def findings(self) -> list[LintFinding]:
        """Return all findings, in the order of the checks."""
        collected = self._findings = LintFindings()
        for line in self._files.errors:
            self._of_reader(line)
        self._identities()
        for configuration in self._files.configurations:
            for connector in configuration.network_connectors:
                self._advisories(configuration, connector)
                self._ids(configuration, connector)
                self._static(configuration, connector)
                self._rights(configuration, connector)
                self._groups(configuration, connector)
                if self._before is None:
                    self._unnamed(configuration, connector)
        if self._before is not None:
            self._renamed(self._before)
        routes = RouteLint(self._files, collected)
        routes.check()
        ClientLint(self._files, self._clients or (), collected).check()
        self._check_rebalancing()
        self._check_fanout()
        self._audits()
        if self._clients is None:
            routes.check_possible_clients()
            self._temporaries()
        return collected.findings

    def _of_reader(self, line: str) -> None:
        """Add an error of the reader as a fault, with the number of the finding or 0."""
        parts = line.split(":", 2)
        location, text = (":".join(parts[:2]), parts[2].strip()) if len(parts) == 3 else ("", line)
        for word, number, why in READER_FINDINGS:
            if word in text:
                self._findings.fault(location, number, why, text)
                return
        self._findings.fault(location, 0, text, "correct the file first")

    def _identities(self) -> None:
        """Check 10: brokers have different ids and names."""
        brokers_by_key: dict[str, BrokerConfiguration] = {}
        for configuration, facts in zip(self._files.configurations, self._files.facts, strict=True):
            for attribute, value in (("brokerName", configuration.broker_name), ("brokerId", configuration.broker_id)):
                other = brokers_by_key.get(f"{attribute} {value}")
                if value is None:
                    continue
                if other is not None:
                    self._findings.fault(
                        facts.location(attribute), 10,
                        f"{attribute} {value!r} is also that of {other.source}, and loops are found by it",
                        f"give each broker a {attribute} of its own",
                    )  # fmt: skip
                brokers_by_key[f"{attribute} {value}"] = configuration

    def _links_of(self, configuration: BrokerConfiguration, connector: NetworkConnectorSettings) -> list[PlannedLink]:
        location = location_of(configuration, connector)
        return [link for link in self._plan.links if link.location == location]

    def _advisories(self, near: BrokerConfiguration, connector: NetworkConnectorSettings) -> None:
        """Check 1: without advisories no consumer is announced."""
        for link in self._links_of(near, connector):
            destination = probe(link.settings, QUEUE) or probe(link.settings, TOPIC)
            refusals = [] if destination is None else self._plan.refusals(destination, link.far)
            if any(refusal.link == link and refusal.rule == RULE_ADVISORIES for refusal in refusals):
                silent = link.far if not self._plan.brokers[link.far].advisories else link.near
                self._findings.fault(
                    link.location, 1,
                    f"broker {silent} has advisorySupport=false, so connector {link.settings.name} learns of no "
                    f"consumers",
                    'set advisorySupport="true" there, or staticBridge="true" with staticallyIncludedDestinations',
                )  # fmt: skip

    def _ids(self, near: BrokerConfiguration, connector: NetworkConnectorSettings) -> None:
        """Check 11: routes are compared by broker ids."""
        if not connector.bridge.suppress_queue_duplicates:
            return
        for name in self._connected_brokers(near.broker_name):
            one = self._files.broker_named(name)
            if one is not None and one.broker_id is None:
                self._findings.fault(
                    location_of(near, connector), 11,
                    f"suppressDuplicateQueueSubscriptions compares broker ids, and the id of broker {name} changes at "
                    f"each start",
                    f"set brokerId in {one.source}",
                )  # fmt: skip

    def _connected_brokers(self, name: str) -> list[str]:
        """Return all brokers of the network of one broker."""
        names = [name]
        for one in names:
            for link in self._plan.links:
                for other in (link.near, link.far):
                    if one in (link.near, link.far) and other not in names:
                        names.append(other)
        return names

    def _static(self, near: BrokerConfiguration, connector: NetworkConnectorSettings) -> None:
        """Check 12 and 13: static destinations."""
        settings = connector.bridge
        location = location_of(near, connector)
        older = self._files.facts_of(near.broker_name).is_older(STATIC_WILDCARDS)
        for one in settings.static:
            if not settings.is_permitted(one):
                self._findings.fault(
                    location, 12, f"{one} is static and excluded, and the exclusion wins: it stays here",
                    "remove it from one of the lists",
                )  # fmt: skip
            if one.is_pattern:
                why = (
                    "which the ActiveMQ that the file was written for does not document"
                    if older
                    else "which older brokers than ActiveMQ 5.11 do not document"
                )
                self._findings.add(
                    location, 13, older, f"{one} is a wildcard among static destinations, {why}",
                    "name each destination if one of those takes part",
                )  # fmt: skip

    def _unnamed(self, near: BrokerConfiguration, connector: NetworkConnectorSettings) -> None:
        """Check 9: names missing now and set later."""
        settings = connector.bridge
        words = (
            ("name of the connector", settings.name, DEFAULT_NAME),
            ("brokerName", near.broker_name, DEFAULT_BROKER_NAME),
        )
        unnamed = [word for word, value, default in words if value == default]
        if unnamed and probe(settings, TOPIC) is not None:
            self._findings.hint(
                location_of(near, connector), 9,
                f"the {' and the '.join(unnamed)} is not set and becomes part of durable subscriptions: naming it "
                f"later leaves them behind, with their pending messages",
                "name it before durable subscribers come",
            )  # fmt: skip

    def _renamed(self, before: NetworkFiles) -> None:
        """Check 9: changed names, which are part of the client ids of bridges with durable subscriptions."""
        now = {old.broker_name: self._same(old, before) for old in before.configurations}
        for link in before.plan.links:
            near, far = now.get(link.near), now.get(link.far)
            if near is None or far is None or probe(link.settings, TOPIC) is None:
                continue
            links = [one for one in self._plan.links if (one.near, one.far) == (near, far)]
            client_id = durable_client(link)
            if links and client_id not in [durable_client(one) for one in links]:
                self._findings.fault(
                    links[0].location, 9,
                    f"durable subscriptions of {client_id} at {near} stay behind with their pending messages: now "
                    f"it is {durable_client(links[0])}",
                    "keep the names of brokers and connectors, or end these subscriptions when they are empty",
                )  # fmt: skip

    def _same(self, old: BrokerConfiguration, before: NetworkFiles) -> str | None:
        """Return the present name of an earlier broker, found by name, by id or by address."""
        location = {(one.host, one.port) for one in old.connectors if one.port}
        for one in self._files.configurations:
            if one.broker_name == old.broker_name and not (
                one.broker_id and old.broker_id and one.broker_id != old.broker_id
            ):
                return one.broker_name
        for one in self._files.configurations:
            same_id = old.broker_id is not None and one.broker_id == old.broker_id
            if same_id or location & {(each.host, each.port) for each in one.connectors}:
                return one.broker_name
        return None

    def _temporaries(self) -> None:
        """Check 17: replies to temporary destinations."""
        for link in self._plan.links:
            if not link.settings.bridge_temporary and not link.reverse:
                self._findings.hint(
                    link.location, 17,
                    f"bridgeTempDestinations is false: answers from {link.near} to temporary destinations at "
                    f"{link.far} are not forwarded",
                    "keep requesters and repliers at one broker, or let bridgeTempDestinations be true",
                )  # fmt: skip

    def _groups(self, near: BrokerConfiguration, connector: NetworkConnectorSettings) -> None:
        """Check 20: message groups with a small window."""
        settings = connector.bridge
        if settings.prefetch_size >= SMALL_PREFETCH:
            return
        grouped = [one for one in self._files.facts_of(near.broker_name).grouped if settings.is_permitted(example(one))]
        if grouped or self._clients is None:
            self._findings.add(
                location_of(near, connector), 20, bool(grouped),
                f"a message group of more than {settings.prefetch_size} messages whose consumer is slow fills the "
                f"window and holds up all other groups{f' of {grouped[0]}' if grouped else ''}",
                "raise prefetchSize, as message groups cross this connector" if grouped
                else "raise prefetchSize if message groups cross this connector",
            )  # fmt: skip

    def _rights(self, near: BrokerConfiguration, connector: NetworkConnectorSettings) -> None:
        """Check 19: the rights of a bridge's user at the remote broker."""
        settings = connector.bridge
        user = settings.remote_user_name or settings.user_name
        for link in self._links_of(near, connector):
            far = self._files.broker_named(link.far)
            if link.reverse or far is None or far.authentication is None:
                continue
            if user is None:
                if not far.authentication.lets_anybody_in:
                    self._findings.fault(
                        link.location, 19, f"broker {link.far} refuses clients without a login",
                        "set userName and password, or remoteUserName and remotePassword",
                    )  # fmt: skip
            elif not _can_log_in(far, user):
                self._findings.fault(
                    link.location, 19, f"broker {link.far} does not know the user {user!r}",
                    f"name one of the users in {far.source}",
                )  # fmt: skip
            elif far.authorization is not None and not settings.static_bridge and not _can_listen(far, user):
                self._findings.fault(
                    link.location, 19,
                    f"user {user!r} may not read ActiveMQ.Advisory.Consumer.> at broker {link.far}, so the bridge "
                    f"learns of no consumers",
                    f'give its group read on <authorizationEntry topic="ActiveMQ.Advisory.&gt;"> in {far.source}',
                )  # fmt: skip

    def _check_rebalancing(self) -> None:
        """Check 14: a connector sends clients to other brokers, and their messages cannot follow."""
        for link in self._plan.links:
            moving = self._files.facts_of(link.near).rebalancing_line
            queue = probe(link.settings, QUEUE)
            if moving and queue is not None and no_way_back(self._plan, queue, link.far, link.near):
                self._findings.fault(
                    f"{self._files.facts_of(link.near).source}:{moving}", 14,
                    f"clients are sent from {link.near} to other brokers, and messages that came from {link.far} do "
                    f"not go back there after them",
                    REPLAY_REMEDY,
                )  # fmt: skip

    def _check_fanout(self) -> None:
        """Check 18: a connector to several brokers at a time."""
        for facts in self._files.facts:
            for location in facts.fanout_places:
                self._findings.fault(
                    location, 18, "what is sent to several brokers of one network comes to each consumer several times",
                    "write static:(tcp://host:port,tcp://host:port): a link to each, and each message goes over one",
                )  # fmt: skip

    def _audits(self) -> None:
        """Check 15: a broker drops a returning message as a duplicate."""
        for link in self._plan.links:
            queue = probe(link.settings, QUEUE)
            if queue is None or not self._plan.brokers[link.near].can_replay(queue):
                continue
            facts = self._files.facts_of(link.far)
            if facts.can_be_older(REPLAY_KNOWN) and not any(one.matches(queue) for one in facts.unaudited):
                older = facts.is_older(REPLAY_KNOWN)
                self._findings.add(
                    facts.location("policyEntry") if facts.source else link.location, 15, older,
                    f"{'this' if older else 'an'} ActiveMQ before 5.9 takes a message that {link.near} sends back to "
                    f"it for a duplicate",
                    'set enableAudit="false" in the policyEntry of its queue' + ("" if older else ", if it is one"),
                )  # fmt: skip


def durable_client(link: PlannedLink) -> str:
    """Return the client id of a bridge for its durable subscriptions at the near broker."""
    token = link.settings.client_id_token
    return token.join((link.settings.name, link.far, "inbound", link.near))


def _can_log_in(far: BrokerConfiguration, user: str) -> bool:
    """Return True if a user is known, or anonymous access is permitted.

    Users in files and certificates are unknown and count as permitted.
    """
    authentication = far.authentication
    if authentication is None or authentication.lets_anybody_in:
        return True
    modules = authentication.all_modules
    return any(
        module.files is not None
        or module.certified_files is not None
        or user in [*[one.name for one in module.users], *[one.name for one in module.certified]]
        for module in modules
    )


def _can_listen(far: BrokerConfiguration, user: str) -> bool:
    """Return True if one of the user's groups may read advisories.

    Users in files and certificates are unknown and count as permitted.
    """
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
        return True  # a guest or a user without groups; the broker itself reports missing rights
    allowed: set[str] = set() if authorization.default is None else set(authorization.default.read)
    for entry in authorization.entries:
        if entry.destination.matches(CONSUMER_ADVISORIES):
            allowed |= set(entry.access.read)
    return bool(groups & allowed) or "*" in allowed
