"""Durable subscriptions and the rights of their users: what one with a wildcard keeps, and who may end or take over
whose.
"""

from __future__ import annotations

import json

import pytest

from spanwire.broker.metadata import SUBSCRIPTIONS
from spanwire.broker.ports import Authorizer, Principal
from spanwire.broker.reserved_destinations import CONTROL
from spanwire.broker.security.authorization_map import AccessList, AuthorizationEntry, AuthorizationMap
from spanwire.broker.topic.durable_subscription import SubscriptionTerms, decode_principal, decode_terms, encode_terms
from spanwire.model.destination import TOPIC, Destination, parse_destination
from spanwire.model.errors import AuthorizationError, StoreError
from spanwire.model.info import ConnectionInfo
from tests.support.control_dialogue import Program, Refused
from tests.support.dialogue.broker_dialogue import Listener, Peer, Stage
from tests.support.late_store import LateStore

EVERYTHING = AccessList(*[frozenset("*")] * 3)
GROUPS = {"alice": "a", "bob": "b", "root": "root"}
ALL = "topic://>"


class Users:
    """Everybody is in the groups that a test chose; duck-typed to `Authenticator`."""

    def __init__(self, **groups: str) -> None:
        self.groups = {**GROUPS, **groups}

    def authenticate(self, info: ConnectionInfo) -> Principal:
        name = info.user_name or ""
        return Principal(name, frozenset(self.groups.get(name, "").split()))


def lists(*more: tuple[str, str]) -> AuthorizationMap:
    """Group a may do everything with ``A.>``, b with ``B.>``, root with all; ``more`` are patterns and groups."""
    return AuthorizationMap([*_entries(), *[_entry(pattern, group, group) for pattern, group in more]])


def _entry(pattern: str, read: str = "", admin: str = "") -> AuthorizationEntry:
    access = AccessList(frozenset(read.split()), frozenset(admin.split()), frozenset(admin.split()))
    return AuthorizationEntry(Destination(TOPIC, pattern), access)


def _entries() -> list[AuthorizationEntry]:
    return [_entry("A.>", "a", "a"), _entry("B.>", "b", "b"), _entry(">", "root", "root")]


class Town:
    """A broker with users, rights, and a connection for each login."""

    def __init__(self, store: LateStore | None = None, rights: Authorizer | None = None, **groups: str) -> None:
        self.users = Users(**groups)
        authorizer = rights if rights is not None else lists()
        self.stage = Stage(store=store, authorizer=authorizer, authenticator=self.users)
        self._logins = 0

    def logs_in(self, user: str, client_id: str | None = "app") -> Peer:
        self._logins += 1
        return self.stage.peer(f"{user}-{self._logins}", client_id, user)

    def subscribes(self, user: str, topic: str = ALL, selector: str | None = None) -> Listener:
        return self.logs_in(user).consumes(topic, durable="s", selector=selector)

    def sends(self, **texts: str) -> None:
        """The text for each topic, an underscore standing for the dot."""
        root = self.logs_in("root", None)
        for topic, text in texts.items():
            root.sends(f"topic://{topic.replace('_', '.')}", text)
        self.stage.settle()
        root.leaves()

    def takes(self, listener: Listener) -> list[str]:
        self.stage.settle()
        return listener.takes()

    def restarts(self, users_are_kept: bool = True) -> Town:
        self.stage.settle()
        store = self.stage.store.crash(-1)
        if not users_are_kept:
            forget_users(store)
        town = Town(store)
        town.stage.broker.recover(store.recovered(), True, town.stage.now, store.metadata)
        return town


def forget_users(store: LateStore) -> None:
    """Make of the subscriptions what a broker wrote that did not keep their users."""
    metadata = store.metadata[SUBSCRIPTIONS]
    for key, value in metadata.items():
        fields = json.loads(value)
        del fields["user"], fields["groups"]
        metadata[key] = json.dumps(fields).encode()


def audit_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "spanwire.audit"]


@pytest.mark.parametrize("topic", ["topic://>", "topic://*.t", "topic://A.t,*.t", "topic://A.>,*.>"])
def test_a_durable_wildcard_gets_what_its_user_may_read_present_and_away(topic: str) -> None:
    town = Town()
    town.sends(B_t="the topic exists")
    listener = town.subscribes("alice", topic)
    root = town.logs_in("root", None)
    root.sends("topic://A.t", "1")
    root.sends("topic://B.t", "2")
    root.sends("topic://B.t,topic://A.t", "3")
    assert town.takes(listener) == ["1", "3"]
    listener.acknowledges("3")
    listener.peer.leaves()
    town.sends(A_t="4", B_t="5")
    assert town.stage.broker.durable_subscriptions()[0].queue.waiting() == 1
    assert town.takes(town.subscribes("alice", topic)) == ["4"]


def test_topics_made_later_feed_a_durable_wildcard_where_its_user_may_read() -> None:
    town = Town()
    listener = town.subscribes("alice")
    town.sends(A_new="1", B_new="2")
    assert town.takes(listener) == ["1"]
    listener.peer.leaves()
    town.sends(A_newer="3", B_newer="4")
    assert town.takes(town.subscribes("alice")) == ["1", "3"]


def test_the_user_of_a_durable_wildcard_outlives_a_restart() -> None:
    town = Town()
    town.subscribes("alice").peer.leaves()
    town = town.restarts()
    town.sends(A_t="1", B_t="2")
    assert town.stage.broker.durable_subscriptions()[0].queue.waiting() == 1
    assert town.takes(town.subscribes("alice")) == ["1"]


def test_new_rights_hold_for_what_is_sent_from_then_on() -> None:
    town = Town()
    town.sends(A_t="0", B_t="0")
    listener = town.subscribes("alice")
    town.stage.broker.reconfiguration.use_authorizer(lists(("B.>", "a")))
    town.sends(A_t="1", B_t="2")
    assert town.takes(listener) == ["1", "2"]
    town.stage.broker.reconfiguration.use_authorizer(lists())
    town.sends(A_t="3", B_t="4")
    assert town.takes(listener) == ["3"]


def test_what_waits_of_a_topic_that_its_user_may_not_read_any_more_stays_until_he_may() -> None:
    town = Town(alice="a b")
    town.subscribes("alice").peer.leaves()
    town.sends(A_t="1", B_t="2")
    town.users.groups["alice"] = "a"
    listener = town.subscribes("alice")
    assert town.takes(listener) == ["1"]
    listener.acknowledges("1")
    listener.peer.leaves()
    town.users.groups["alice"] = "a b"
    assert town.takes(town.subscribes("alice")) == ["2"]


def test_rights_that_are_lost_while_the_subscriber_is_away_hold_for_what_waits() -> None:
    town = Town(rights=lists(("B.>", "a")))
    town.subscribes("alice").peer.leaves()
    town.sends(A_t="1", B_t="2")
    town.stage.broker.reconfiguration.use_authorizer(lists())
    town.sends(A_t="3", B_t="4")
    assert town.takes(town.subscribes("alice")) == ["1", "3"]


def test_rights_that_are_lost_over_a_restart_hold_for_what_waits() -> None:
    town = Town(rights=lists(("B.>", "a")))
    town.subscribes("alice").peer.leaves()
    town.sends(A_t="1", B_t="2")
    again = town.restarts()
    assert again.takes(again.subscribes("alice")) == ["1"]


def test_groups_that_are_gained_hold_from_the_next_subscribing_on_also_over_a_restart() -> None:
    town = Town()
    town.sends(B_t="0")
    town.subscribes("alice").peer.leaves()
    town.users.groups["alice"] = "a b"
    town.sends(B_t="1")
    town.subscribes("alice").peer.leaves()
    town.sends(B_t="2")
    town = town.restarts()
    town.sends(B_t="3")
    town.users.groups["alice"] = "a b"
    assert town.takes(town.subscribes("alice")) == ["2", "3"]


def test_a_subscription_that_is_kept_without_a_user_loses_nothing_and_shows_nothing_it_must_not() -> None:
    town = Town()
    town.subscribes("alice").peer.leaves()
    town.sends(A_t="1")
    town = town.restarts(users_are_kept=False)
    town.sends(A_t="2", B_t="3")
    assert town.stage.broker.durable_subscriptions()[0].queue.waiting() == 3
    assert town.takes(town.subscribes("alice")) == ["1", "2"]
    town.sends(B_t="4")
    assert town.stage.broker.durable_subscriptions()[0].queue.waiting() == 1


def test_without_an_access_list_nothing_is_asked_of_a_wildcard() -> None:
    stage = Stage()
    listener = stage.peer("c", "app", "ann").consumes(ALL, durable="s")
    stage.peer("p").sends("topic://X", "1")
    listener.peer.leaves()
    stage.peer("q").sends("topic://X", "2")
    again = stage.peer("d", "app", "ben").consumes(ALL, durable="s")
    stage.settle()
    assert again.takes() == ["1", "2"]


def test_another_user_cannot_unsubscribe_without_the_right_to_administer(caplog: pytest.LogCaptureFixture) -> None:
    town = Town()
    town.subscribes("alice", "topic://A.t").peer.leaves()
    town.sends(A_t="1")
    bob = town.logs_in("bob")
    with pytest.raises(
        AuthorizationError, match="bob is not authorized to remove: durable subscription s of client app"
    ):
        bob.unsubscribes("s")
    assert audit_lines(caplog) == [
        "refused: user bob at tcp://bob-3:1 (test) may not remove durable subscription s of client app"
    ]
    bob.leaves()
    assert town.takes(town.subscribes("alice", "topic://A.t")) == ["1"]


@pytest.mark.parametrize(("topic", "selector"), [("topic://B.t", None), ("topic://A.t", "n = 1")])
def test_another_user_cannot_replace_one_by_other_terms(
    topic: str, selector: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    town = Town(rights=AuthorizationMap([*_entries(), _entry("A.>", read="b")]))
    town.subscribes("alice", "topic://A.t").peer.leaves()
    town.sends(A_t="1")
    bob = town.logs_in("bob")
    with pytest.raises(AuthorizationError):
        bob.consumes(topic, durable="s", selector=selector)
    bob.leaves()
    assert len(audit_lines(caplog)) == 1
    assert town.takes(town.subscribes("alice", "topic://A.t")) == ["1"]


def test_the_user_ends_its_own_one_whatever_his_rights_are_now() -> None:
    town = Town()
    town.subscribes("alice", "topic://A.t").peer.leaves()
    town.users.groups["alice"] = "nothing"
    town.logs_in("alice").unsubscribes("s")
    assert not town.stage.broker.durable_subscriptions()


@pytest.mark.parametrize("topic", ["topic://A.t", "topic://A.>", ALL])
def test_who_administers_all_of_its_topics_may_end_it(topic: str) -> None:
    town = Town()
    town.subscribes("alice", topic).peer.leaves()
    town.logs_in("root").unsubscribes("s")
    assert not town.stage.broker.durable_subscriptions()


def test_who_administers_a_part_of_a_wildcard_cannot_end_it_nor_take_it_over(caplog: pytest.LogCaptureFixture) -> None:
    town = Town()
    town.subscribes("alice").peer.leaves()
    town.sends(A_t="1", B_t="2")
    bob = town.logs_in("bob")
    with pytest.raises(AuthorizationError, match="remove: durable subscription"):
        bob.unsubscribes("s")
    with pytest.raises(AuthorizationError, match="read from: durable subscription"):
        bob.consumes(ALL, durable="s")
    assert len(audit_lines(caplog)) == 2
    bob.leaves()
    assert town.takes(town.subscribes("alice")) == ["1"]


def test_who_may_read_all_of_its_topics_takes_it_over_with_what_waits() -> None:
    town = Town(carol="a")
    town.subscribes("alice", "topic://A.>").peer.leaves()
    town.sends(A_t="1")
    assert town.takes(town.subscribes("carol", "topic://A.>")) == ["1"]
    assert str(town.stage.broker.durable_subscriptions()[0].principal) == "Principal(carol)"


def test_one_that_is_kept_without_a_user_is_ended_by_administrators_alone() -> None:
    town = Town()
    town.subscribes("alice", "topic://A.t").peer.leaves()
    town = town.restarts(users_are_kept=False)
    bob = town.logs_in("bob")
    with pytest.raises(AuthorizationError):
        bob.unsubscribes("s")
    bob.leaves()
    town.logs_in("alice").unsubscribes("s")


def test_a_cursor_of_a_wildcard_needs_the_right_to_administer_all_of_its_topics() -> None:
    town = Town(rights=AuthorizationMap([*_entries(), AuthorizationEntry(CONTROL, EVERYTHING)]))
    town.subscribes("alice").peer.leaves()
    bob, root = Program(town.stage, "asker", "bob"), Program(town.stage, "operator", "root")
    request = {"cursor": "c", "clientId": "app", "subscription": "s", "run": "r"}
    with pytest.raises(Refused, match="not authorized to administer: topic://>"):
        bob.asks("open", **request)
    root.asks("open", **request)


def test_the_store_keeps_user_and_groups_and_reads_what_has_none() -> None:
    terms = SubscriptionTerms("app", "s", parse_destination(ALL), None, False)
    value = encode_terms(terms, Principal("älice", frozenset({"b", "a"})))
    assert decode_terms(value).agrees_with(terms)
    principal = decode_principal(value)
    assert principal is not None
    assert (principal.name, principal.groups) == ("älice", frozenset({"a", "b"}))
    assert decode_principal(encode_terms(terms)) is None


@pytest.mark.parametrize("value", [b"{", b'{"user": "u"}', b'{"user": 1, "groups": []}', b'{"user": "u", "groups": 1}'])
def test_a_user_that_cannot_be_read_is_told_in_one_line(value: bytes) -> None:
    with pytest.raises(StoreError, match="spanwire store check"):
        decode_principal(value)


def test_a_wildcard_whose_user_lost_a_right_and_has_it_again_gets_one_copy_of_what_is_committed() -> None:
    town = Town()
    town.sends(A_t="the topic exists")
    listener = town.subscribes("alice")
    root = town.logs_in("root", None)
    root.begins(1)
    root.sends("topic://A.t", "1", transaction=1)
    for user in ("b", "a"):
        town.stage.broker.reconfiguration.use_authorizer(
            AuthorizationMap([_entry("A.>", user, user), _entry(">", "root", "root")])
        )
    root.commits(1)
    assert town.takes(listener) == ["1"]
