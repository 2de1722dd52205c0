"""Virtual topics, composite destinations and mirrored queues: who gets a copy, under which name, with which right."""

from __future__ import annotations

import logging

import pytest

from spanwire.broker.destinations.pattern_index import COMPARED_PER_STEP, MAX_COMPARED
from spanwire.broker.dispatch.virtual_route import awaited
from spanwire.broker.policy.fan_out import (
    COPY_STEPS,
    MAX_FAN_OUT,
    MAX_STEPS_OF_SEND,
    STEPS_OF_REQUEST,
    selector_steps,
)
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.policy.virtual_settings import (
    CompositeDestination,
    ForwardTo,
    MirroredQueues,
    VirtualSettings,
    VirtualTopic,
)
from spanwire.broker.ports import ADMIN, NO_TOKEN, WRITE
from spanwire.broker.routing.virtual_destinations import MAX_AWAITED, MAX_HOPS, MAX_MADE
from spanwire.model.destination import QUEUE, TOPIC, Destination, parse_destination
from spanwire.model.errors import AuthorizationError, InvalidSelectorError, ResourceAllocationError
from tests.support.dialogue.broker_dialogue import Stage
from tests.support.dialogue.text_format import original_of
from tests.support.recording_authorizer import RecordingAuthorizer

ORDERS = "topic://VirtualTopic.Orders"
SHOP = "queue://Consumer.Shop.VirtualTopic.Orders"
TAX = "queue://Consumer.Tax.VirtualTopic.Orders"


def forwards(*texts: str) -> tuple[ForwardTo, ...]:
    return tuple(ForwardTo(parse_destination(text)) for text in texts)


def composite(name: str, *targets: str, forward_only: bool = True, copy_message: bool = True) -> VirtualSettings:
    settings = CompositeDestination(parse_destination(name), forwards(*targets), forward_only, copy_message)
    return VirtualSettings((), (settings,))


def test_each_group_of_a_virtual_topic_gets_every_message_and_shares_it_among_its_consumers() -> None:
    stage = Stage()
    one, two = stage.peer("a").consumes(SHOP), stage.peer("b").consumes(SHOP)
    tax = stage.peer("c").consumes(TAX)
    listener = stage.peer("d").consumes(ORDERS)
    producer = stage.peer("p")
    for text in ("1", "2", "3", "4"):
        producer.sends(ORDERS, text)
    assert (one.takes(), two.takes()) == (["1", "3"], ["2", "4"])
    assert tax.takes() == listener.takes() == ["1", "2", "3", "4"]


def test_a_copy_carries_its_queue_as_destination_and_the_topic_as_the_original_one() -> None:
    stage = Stage()
    shop = stage.peer("a").consumes(SHOP)
    stage.peer("p").sends(ORDERS, "1")
    (copy,) = shop.takes_deliveries()
    assert copy.message.destination.qualified_name == SHOP
    assert original_of(copy.message) == ORDERS


def test_the_queues_of_a_virtual_topic_keep_what_comes_while_nobody_is_there() -> None:
    stage = Stage()
    first = stage.peer("a").consumes(SHOP)
    first.leaves()
    stage.peer("p").sends(ORDERS, "1")
    stage.settle()
    assert stage.view(SHOP).pending == 1
    assert stage.peer("b").consumes(SHOP).takes() == ["1"]


def test_a_queue_that_appears_later_listens_from_then_on_and_one_that_is_removed_no_more() -> None:
    stage = Stage()
    producer, peer = stage.peer("p"), stage.peer("a")
    producer.sends(ORDERS, "before")
    shop = peer.consumes(SHOP)
    producer.sends(ORDERS, "after")
    assert shop.takes() == ["after"]
    shop.acknowledges("after")
    shop.leaves()
    peer.removes(SHOP)
    producer.sends(ORDERS, "last")
    assert peer.consumes(SHOP).takes() == []


@pytest.mark.parametrize("pattern", ["Consumer.Shop.VirtualTopic.>", "Consumer.Shop.*.Orders", "Consumer.Shop.>"])
def test_a_consumer_of_a_pattern_is_a_group_of_each_topic(pattern: str) -> None:
    stage = Stage()
    producer = stage.peer("p")
    producer.sends(ORDERS, "nobody is there")
    shop = stage.peer("a").consumes(f"queue://{pattern}")
    producer.sends(ORDERS, "1", "2")
    stage.settle()
    assert [delivery.message.destination.qualified_name for delivery in shop.deliveries] == [SHOP, SHOP]
    assert shop.takes() == ["1", "2"]
    shop.acknowledges("2", count=2)
    shop.leaves()
    producer.sends(ORDERS, "3")
    stage.settle()
    assert stage.view(SHOP).pending == 1
    assert stage.peer("b").consumes(f"queue://{pattern}").takes() == ["3"]


@pytest.mark.parametrize("pattern", ["queue://>", "queue://Consumer.*.VirtualTopic.>", "queue://Consumer.Shop.Other.>"])
def test_a_pattern_that_names_no_group_makes_no_queue(pattern: str) -> None:
    stage = Stage()
    listener = stage.peer("a").consumes(pattern)
    stage.peer("p").sends(ORDERS, "1")
    assert listener.takes() == []
    assert not [view for view in stage.broker.destination_views() if view.destination.startswith("queue:")]


def test_a_consumer_of_a_pattern_makes_no_queue_that_it_may_not_make() -> None:
    authorizer = RecordingAuthorizer()
    authorizer.refused.add(("shop", ADMIN, SHOP))
    stage = Stage(authorizer=authorizer)
    shop = stage.peer("a", user="shop").consumes("queue://Consumer.Shop.>")
    stage.peer("p", user="p").sends(ORDERS, "1")
    assert shop.takes() == []
    assert not stage.has(SHOP)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("Consumer.A.VirtualTopic.>", "Consumer.A.VirtualTopic.X.Y"),
        ("Consumer.A.VirtualTopic.X.Y.>", "Consumer.A.VirtualTopic.X.Y"),
        ("Consumer.A.*.X.*", "Consumer.A.VirtualTopic.X.Y"),
        ("Consumer.A.*.X", None),
        ("Consumer.A.*.X.*.*", None),
        ("Consumer.A.VirtualTopic.Z.>", None),
        ("*.A.>", "Consumer.A.VirtualTopic.X.Y"),
        (">", None),
    ],
)
def test_a_pattern_and_a_topic_spell_the_name_of_one_queue_together(wanted: str, found: str | None) -> None:
    queue = awaited(Destination(QUEUE, "Consumer.*.VirtualTopic.X.Y"), Destination(QUEUE, wanted))
    assert (None if queue is None else queue.name) == found


def test_an_ordinary_topic_feeds_no_queues() -> None:
    stage = Stage()
    shop = stage.peer("a").consumes("queue://Consumer.Shop.Orders")
    stage.peer("p").sends("topic://Orders", "1")
    assert shop.takes() == []


def test_without_virtual_topics_their_names_are_ordinary_ones() -> None:
    stage = Stage(virtual=VirtualSettings(topics=()))
    shop = stage.peer("a").consumes(SHOP)
    stage.peer("p").sends(ORDERS, "1")
    assert shop.takes() == []


def test_prefix_and_postfix_are_those_of_the_settings() -> None:
    topic = VirtualTopic(Destination(TOPIC, ">"), prefix="Q.*.", postfix=".In")
    stage = Stage(virtual=VirtualSettings((topic,)))
    wanted = stage.peer("a").consumes("queue://Q.x.News.In")
    other = stage.peer("b").consumes("queue://Q.x.News")
    stage.peer("p").sends("topic://News", "1")
    assert (wanted.takes(), other.takes()) == (["1"], [])


def test_a_selector_aware_virtual_topic_leaves_out_queues_that_nobody_wants_it_from() -> None:
    topic = VirtualTopic(selector_aware=True)
    stage = Stage(virtual=VirtualSettings((topic,)))
    stage.peer("a").consumes(SHOP, selector="n > 5")
    stage.peer("b").consumes(TAX, selector="n < 5")
    producer = stage.peer("p")
    producer.sends(ORDERS, "small", properties={"n": 1})
    stage.settle()
    assert (stage.view(SHOP).enqueued, stage.view(TAX).enqueued) == (0, 1)


def test_a_local_virtual_topic_leaves_alone_what_came_over_a_bridge() -> None:
    stage = Stage(virtual=VirtualSettings((VirtualTopic(local=True),)))
    shop = stage.peer("a").consumes(SHOP)
    producer = stage.peer("p")
    message = producer.message(ORDERS, "far")
    message.broker_path = ("ID:other",)
    stage.broker.send(producer.state, message, None, NO_TOKEN, stage.now)
    producer.sends(ORDERS, "near")
    assert shop.takes() == ["near"]


def test_a_queue_without_room_is_skipped_if_the_settings_say_so_and_else_the_send_waits() -> None:
    tight = PolicyEntry(Destination(QUEUE, "Consumer.Tax.>"), memory_limit_bytes=1_000)
    for drops, expected in ((True, ["1", "2"]), (False, ["1"])):
        stage = Stage(tight, virtual=VirtualSettings((VirtualTopic(drop_on_resource_limit=drops),)))
        shop = stage.peer("a").consumes(SHOP)
        stage.peer("b").consumes(TAX, prefetch=1)
        producer = stage.peer("p")
        for text in ("1", "2"):
            producer.sends(ORDERS, text, persistent=False)
        assert shop.takes() == expected


def test_a_transaction_holds_all_copies_until_it_is_committed() -> None:
    stage = Stage()
    shop, tax = stage.peer("a").consumes(SHOP), stage.peer("b").consumes(TAX)
    producer = stage.peer("p")
    producer.begins(1)
    producer.sends(ORDERS, "1", transaction=1)
    assert (shop.takes(), tax.takes()) == ([], [])
    producer.commits(1)
    stage.settle()
    assert (shop.takes(), tax.takes()) == (["1"], ["1"])


def test_an_answer_comes_when_all_copies_are_stored() -> None:
    stage = Stage()
    stage.peer("a").consumes(SHOP)
    stage.peer("b").consumes(TAX)
    producer = stage.peer("p")
    token = producer.sends(ORDERS, "1")
    assert token not in producer.answers
    stage.settle()
    assert producer.answers[token] is None


def test_a_queue_that_the_sender_may_not_write_to_is_passed_by_with_a_line(caplog: pytest.LogCaptureFixture) -> None:
    authorizer = RecordingAuthorizer()
    stage = Stage(authorizer=authorizer)
    shop, tax = stage.peer("a").consumes(SHOP), stage.peer("b").consumes(TAX)
    authorizer.refused.add(("*", WRITE, TAX))
    with caplog.at_level(logging.WARNING, "spanwire.audit"):
        stage.peer("p").sends(ORDERS, "1")
    assert (shop.takes(), tax.takes()) == (["1"], [])
    assert f"may not write to {TAX}" in caplog.text


def test_a_composite_queue_forwards_and_keeps_nothing() -> None:
    stage = Stage(virtual=composite("queue://IN", "queue://A", "topic://T"))
    a, t = stage.peer("a").consumes("queue://A"), stage.peer("t").consumes("topic://T")
    inside = stage.peer("i").consumes("queue://IN")
    stage.peer("p").sends("queue://IN", "1")
    assert (a.takes(), t.takes(), inside.takes()) == (["1"], ["1"], [])


@pytest.mark.parametrize("forward_only", [True, False])
def test_a_composite_moves_what_a_filter_wants_and_keeps_the_rest(forward_only: bool) -> None:
    forwards = (
        ForwardTo(parse_destination("queue://RED"), "n = 1"),
        ForwardTo(parse_destination("topic://BIG"), "n > 0"),
    )
    kept = CompositeDestination(parse_destination("queue://IN"), forwards, forward_only, True, True)
    stage = Stage(virtual=VirtualSettings((), (kept,)))
    listener = stage.peer("t").consumes("topic://BIG")
    peer = stage.peer("p")
    for n in (0, 1, 2):
        peer.sends("queue://IN", str(n), properties={"n": n})
    peer.sends("queue://IN", "none")
    consumer = stage.peer("c")
    assert consumer.consumes("queue://IN").takes() == ["0", "none"]
    assert consumer.consumes("queue://RED").takes() == ["1"]
    assert listener.takes() == ["1", "2"]


def test_a_composite_with_a_target_for_all_keeps_nothing_though_it_would_keep_the_rest() -> None:
    forwards = (ForwardTo(parse_destination("queue://A")), ForwardTo(parse_destination("queue://B"), "n = 1"))
    stage = Stage(
        virtual=VirtualSettings(
            (), (CompositeDestination(parse_destination("queue://IN"), forwards, False, True, True),)
        )
    )
    stage.peer("p").sends("queue://IN", "1")
    consumer = stage.peer("c")
    assert (consumer.consumes("queue://IN").takes(), consumer.consumes("queue://A").takes()) == ([], ["1"])


def test_a_composite_topic_that_does_not_only_forward_serves_its_own_subscribers_too() -> None:
    stage = Stage(virtual=composite("topic://IN", "queue://A", forward_only=False))
    a, inside = stage.peer("a").consumes("queue://A"), stage.peer("i").consumes("topic://IN")
    stage.peer("p").sends("topic://IN", "1")
    assert (a.takes(), inside.takes()) == (["1"], ["1"])


def test_a_filter_decides_by_the_message() -> None:
    odd = ForwardTo(Destination(QUEUE, "ODD"), "odd = 'yes'")
    settings = CompositeDestination(Destination(QUEUE, "IN"), (odd, ForwardTo(Destination(TOPIC, "ALL"))))
    stage = Stage(virtual=VirtualSettings((), (settings,)))
    queue, topic = stage.peer("a").consumes("queue://ODD"), stage.peer("b").consumes("topic://ALL")
    producer = stage.peer("p")
    producer.sends("queue://IN", "1", properties={"odd": "yes"})
    producer.sends("queue://IN", "2", properties={"odd": "no"})
    assert (queue.takes(), topic.takes()) == (["1"], ["1", "2"])


def test_without_copies_the_message_says_where_it_was_sent_to() -> None:
    stage = Stage(virtual=composite("queue://IN", "queue://A", "queue://B", copy_message=False))
    a, b = stage.peer("a").consumes("queue://A"), stage.peer("b").consumes("queue://B")
    stage.peer("p").sends("queue://IN", "1")
    for listener in (a, b):
        (delivery,) = listener.takes_deliveries()
        assert delivery.message.destination.qualified_name == "queue://IN"
        assert original_of(delivery.message) is None
        listener.acknowledges("1")
    stage.settle()
    assert stage.memory() == 0


def test_a_composite_name_may_be_a_pattern() -> None:
    stage = Stage(virtual=composite("queue://IN.*", "queue://ALL"))
    everything = stage.peer("a").consumes("queue://ALL")
    producer = stage.peer("p")
    producer.sends("queue://IN.1", "1")
    producer.sends("queue://IN.2", "2")
    assert everything.takes() == ["1", "2"]


def test_composites_may_forward_to_virtual_topics_and_to_each_other() -> None:
    settings = VirtualSettings(
        (VirtualTopic(),),
        (
            CompositeDestination(Destination(QUEUE, "IN"), forwards("queue://NEXT")),
            CompositeDestination(Destination(QUEUE, "NEXT"), forwards(ORDERS)),
        ),
    )
    stage = Stage(virtual=settings)
    shop = stage.peer("a").consumes(SHOP)
    stage.peer("p").sends("queue://IN", "1")
    assert shop.takes() == ["1"]


def test_a_way_that_comes_back_ends_there() -> None:
    settings = VirtualSettings(
        (),
        (
            CompositeDestination(Destination(QUEUE, "A"), forwards("queue://B"), forward_only=False),
            CompositeDestination(Destination(QUEUE, "B"), forwards("queue://A"), forward_only=False),
        ),
    )
    stage = Stage(virtual=settings)
    a, b = stage.peer("a").consumes("queue://A"), stage.peer("b").consumes("queue://B")
    stage.peer("p").sends("queue://A", "1")
    assert (a.takes(), b.takes()) == (["1"], ["1"])


def test_a_row_of_virtual_destinations_has_a_limit() -> None:
    row = tuple(
        CompositeDestination(Destination(QUEUE, f"Q{place}"), forwards(f"queue://Q{place + 1}"), forward_only=False)
        for place in range(MAX_HOPS + 4)
    )
    stage = Stage(virtual=VirtualSettings((), row))
    stage.peer("p").sends("queue://Q0", "1")
    stage.settle()
    assert stage.view(f"queue://Q{MAX_HOPS - 1}").pending == 1
    assert stage.view(f"queue://Q{MAX_HOPS}").pending == 0


def test_a_target_that_the_sender_may_not_write_to_refuses_all_of_it() -> None:
    authorizer = RecordingAuthorizer()
    stage = Stage(authorizer=authorizer, virtual=composite("queue://IN", "queue://A", "queue://B"))
    a = stage.peer("a").consumes("queue://A")
    authorizer.refused.add(("*", WRITE, "queue://B"))
    with pytest.raises(AuthorizationError, match="write to: queue://B"):
        stage.peer("p").sends("queue://IN", "1")
    assert a.takes() == []


def test_who_may_not_write_to_the_virtual_name_reaches_no_target() -> None:
    authorizer = RecordingAuthorizer()
    stage = Stage(authorizer=authorizer, virtual=composite("queue://IN", "queue://A"))
    a = stage.peer("a").consumes("queue://A")
    authorizer.refused.add(("*", WRITE, "queue://IN"))
    with pytest.raises(AuthorizationError):
        stage.peer("p").sends("queue://IN", "1")
    assert a.takes() == []


def test_a_client_composite_with_a_virtual_part_reaches_the_targets_of_both() -> None:
    stage = Stage(virtual=composite("queue://IN", "queue://A"))
    a, b = stage.peer("a").consumes("queue://A"), stage.peer("b").consumes("queue://B")
    stage.peer("p").sends("queue://IN,B", "1")
    assert (a.takes(), b.takes()) == (["1"], ["1"])


@pytest.mark.parametrize("sent_to", [f"{ORDERS},queue://OTHER", f"queue://OTHER,{ORDERS}", "queue://IN"])
def test_a_copy_names_the_virtual_destination_that_forwarded_it_as_the_original_one(sent_to: str) -> None:
    stage = Stage(virtual=VirtualSettings((VirtualTopic(),), composite("queue://IN", ORDERS).composites))
    shop = stage.peer("a").consumes(SHOP)
    stage.peer("p").sends(sent_to, "1")
    assert [original_of(delivery.message) for delivery in shop.deliveries] == [ORDERS]


def test_a_send_that_waited_for_room_in_a_target_goes_on_to_all_targets() -> None:
    tight = PolicyEntry(Destination(QUEUE, "A"), memory_limit_bytes=1_000)
    stage = Stage(tight, virtual=composite("queue://IN", "queue://A", "queue://B"))
    a, b = stage.peer("a").consumes("queue://A"), stage.peer("b").consumes("queue://B")
    producer = stage.peer("p")
    producer.sends("queue://IN", "1", persistent=False)
    producer.sends("queue://IN", "2", persistent=False)
    assert (a.takes(), b.takes()) == (["1"], ["1"])
    a.acknowledges("1")
    assert (a.takes(), b.takes()) == (["2"], ["2"])


def test_a_filter_that_is_no_selector_is_refused_when_the_broker_is_made() -> None:
    bad = ForwardTo(Destination(QUEUE, "A"), "n >")
    with pytest.raises(InvalidSelectorError):
        Stage(virtual=VirtualSettings((), (CompositeDestination(Destination(QUEUE, "IN"), (bad,)),)))


def test_a_mirrored_queue_shows_each_message_on_its_topic() -> None:
    stage = Stage(virtual=VirtualSettings(mirrored=MirroredQueues()))
    watcher = stage.peer("w").consumes("topic://VirtualTopic.Mirror.Q")
    consumer = stage.peer("c").consumes("queue://Q")
    stage.peer("p").sends("queue://Q", "1")
    assert (watcher.takes(), consumer.takes()) == (["1"], ["1"])


def test_a_mirror_feeds_the_queues_that_listen_to_it() -> None:
    stage = Stage(virtual=VirtualSettings(mirrored=MirroredQueues()))
    stage.peer("w").consumes("topic://VirtualTopic.Mirror.Q")
    kept = stage.peer("k").consumes("queue://Consumer.log.VirtualTopic.Mirror.Q")
    stage.peer("p").sends("queue://Q", "1")
    assert kept.takes() == ["1"]
    assert original_of(kept.deliveries[0].message) == "topic://VirtualTopic.Mirror.Q"


def test_a_mirror_is_there_for_patterns_and_listening_queues_before_anybody_names_it() -> None:
    stage = Stage(virtual=VirtualSettings(mirrored=MirroredQueues()))
    kept = stage.peer("k").consumes("queue://Consumer.log.VirtualTopic.Mirror.Q")
    watcher = stage.peer("w").consumes("topic://VirtualTopic.Mirror.*")
    durable = stage.peer("d", "client").consumes("topic://VirtualTopic.Mirror.*", durable="s")
    stage.peer("p").sends("queue://Q", "1")
    stage.settle()
    assert (kept.takes(), watcher.takes(), durable.takes()) == (["1"], ["1"], ["1"])
    for delivery in (watcher.deliveries[0], durable.deliveries[0]):
        assert str(delivery.message.destination) == "topic://VirtualTopic.Mirror.Q"
        assert original_of(delivery.message) is None


def test_the_topic_of_a_mirrored_queue_goes_with_it_unless_somebody_listens() -> None:
    stage = Stage(virtual=VirtualSettings(mirrored=MirroredQueues()))
    peer = stage.peer("p")
    for name in ("A", "B"):
        peer.sends(f"queue://{name}", "1")
    stage.peer("w").consumes("topic://VirtualTopic.Mirror.B")
    for name in ("A", "B"):
        assert stage.has(f"topic://VirtualTopic.Mirror.{name}")
        peer.removes(f"queue://{name}")
    assert not stage.has("topic://VirtualTopic.Mirror.A")
    assert stage.has("topic://VirtualTopic.Mirror.B")


def test_temporary_queues_are_mirrored_only_if_the_settings_say_so() -> None:
    for temporary in (True, False):
        stage = Stage(virtual=VirtualSettings(mirrored=MirroredQueues(temporary=temporary)))
        owner = stage.peer("o")
        queue = owner.temporary()
        watcher = stage.peer("w").consumes("topic://VirtualTopic.Mirror." + queue.removeprefix("temp-queue://"))
        stage.peer("p").sends(queue, "1")
        assert watcher.takes() == (["1"] if temporary else [])


@pytest.mark.large
def test_so_many_queues_listen_to_a_virtual_topic_and_a_message_to_more_is_refused() -> None:
    stage = Stage()
    count = MAX_FAN_OUT // COPY_STEPS
    for number in range(count):
        stage.broker.configure_destination(parse_destination(f"queue://Consumer.{number}.VirtualTopic.Orders"))
    producer = stage.peer("p")
    before = stage.broker.steps
    producer.sends(ORDERS, "1", persistent=False)
    assert count < stage.broker.steps - before < 2 * count
    assert stage.view(f"queue://Consumer.{count - 1}.VirtualTopic.Orders").pending == 1
    for number in range(count, MAX_STEPS_OF_SEND // COPY_STEPS):
        stage.broker.configure_destination(parse_destination(f"queue://Consumer.{number}.VirtualTopic.Orders"))
    with pytest.raises(ResourceAllocationError, match="look at the virtual destinations of the configuration"):
        producer.sends(ORDERS, "2", persistent=False)
    assert stage.view("queue://Consumer.0.VirtualTopic.Orders").pending == 1


def test_composites_that_lead_to_each_other_on_countless_ways_refuse_a_message() -> None:
    names = [f"queue://C.{number}" for number in range(MAX_HOPS)]
    settings = [CompositeDestination(parse_destination(name), forwards(*names)) for name in names]
    stage = Stage(virtual=VirtualSettings((), tuple(settings)))
    with pytest.raises(ResourceAllocationError, match="look at the virtual destinations of the configuration"):
        stage.peer("p").sends(names[0], "1")


def test_one_message_makes_only_so_many_queues_that_consumers_of_patterns_wait_for() -> None:
    stage = Stage()
    peer = stage.peer("c0")
    for number in range(MAX_AWAITED):
        if number % 1_000 == 999:
            peer = stage.peer(f"c{number}")
        peer.consumes(f"queue://Consumer.{number}.VirtualTopic.>")
    late = stage.peer("late").consumes("queue://Consumer.late.VirtualTopic.>")
    producer = stage.peer("p")
    with pytest.raises(ResourceAllocationError, match=f"more than {MAX_AWAITED} queues.*make them before"):
        producer.sends(ORDERS, "1")
    assert not stage.has("queue://Consumer.0.VirtualTopic.Orders")
    late.leaves()
    before = stage.broker.steps
    producer.sends(ORDERS, "2", persistent=False)
    assert stage.broker.steps - before >= MAX_AWAITED + MAX_AWAITED // STEPS_OF_REQUEST
    assert stage.view(f"queue://Consumer.{MAX_AWAITED - 1}.VirtualTopic.Orders").enqueued == 1


def test_wildcards_for_the_queues_of_a_virtual_topic_are_looked_at_once_each_and_others_not_at_all() -> None:
    stage = Stage()
    peers = [stage.peer(f"c{number}") for number in range(4)]
    others = ("Consumer.{}.Other.>", "Other.{}.>", "Consumer.A.VirtualTopic.>", "Consumer.A.VirtualTopic.>")
    for number in range(100 * STEPS_OF_REQUEST):
        peers[number % 4].consumes("queue://" + others[number % 4].format(number))
    producer = stage.peer("p")
    producer.sends(ORDERS, "1", persistent=False)
    before = stage.broker.steps
    producer.sends(ORDERS, "2", persistent=False)
    unchanged = stage.broker.steps - before
    peers[0].consumes("queue://Else.>")
    before = stage.broker.steps
    producer.sends(ORDERS, "3", persistent=False)
    assert stage.broker.steps - before <= unchanged + 2 + 25 * STEPS_OF_REQUEST // COMPARED_PER_STEP
    assert stage.view("queue://Consumer.A.VirtualTopic.Orders").enqueued == 3


def test_a_queue_is_made_if_one_of_the_consumers_of_equal_wildcards_may() -> None:
    authorizer = RecordingAuthorizer()
    authorizer.refused.add(("guest", ADMIN, SHOP))
    stage = Stage(authorizer=authorizer)
    guests = [stage.peer(f"g{number}", user="guest").consumes("queue://Consumer.Shop.>") for number in range(2)]
    shop = stage.peer("a", user="shop").consumes("queue://Consumer.Shop.>")
    stage.peer("p", user="p").sends(ORDERS, "1", "2", "3")
    stage.settle()
    assert sorted(shop.takes() + guests[0].takes() + guests[1].takes()) == ["1", "2", "3"]


def test_one_message_makes_only_so_many_queues_on_all_its_routes_and_the_next_one_makes_the_others() -> None:
    first = [f"queue://A.{number}" for number in range(MAX_MADE - 1)]
    second = [f"queue://B.{number}" for number in range(10)]
    settings = (
        CompositeDestination(parse_destination("queue://A"), forwards(*first, "queue://B")),
        CompositeDestination(parse_destination("queue://B"), forwards(*second)),
    )
    stage = Stage(virtual=VirtualSettings((), settings))
    producer = stage.peer("p")
    with pytest.raises(ResourceAllocationError, match=r"would make queue://B\.0 and more destinations before"):
        producer.sends("queue://A", "1")
    assert stage.view("queue://A.0").enqueued == 0
    assert not stage.has("queue://B.0")
    producer.sends("queue://A", "2", persistent=False)
    assert [stage.view(name).enqueued for name in (first[0], first[-1], second[0], second[-1])] == [1] * 4


def test_one_message_makes_only_so_many_queues_as_may_be_compared_with_all_wildcards() -> None:
    names = [f"queue://A.{number}" for number in range(100)]
    settings = (CompositeDestination(parse_destination("queue://A"), forwards(*names)),)
    stage = Stage(virtual=VirtualSettings((), settings))
    peer = stage.peer("c")
    for _ in range(MAX_COMPARED // 80):
        peer.consumes("queue://*.other")
    producer = stage.peer("p")
    with pytest.raises(ResourceAllocationError, match=r"would make queue://A\.80 and more destinations before"):
        producer.sends("queue://A", "1")
    producer.sends("queue://A", "2", persistent=False)
    assert [stage.view(name).enqueued for name in names] == [1] * 100


def test_a_selector_aware_virtual_topic_asks_only_so_many_consumers() -> None:
    stage = Stage(virtual=VirtualSettings((VirtualTopic(selector_aware=True),)))
    peer = stage.peer("c")
    selector = "a = '" + "x" * 8_000 + "'"
    count = MAX_STEPS_OF_SEND // (1 + selector_steps(selector))
    for number in range(count + 1):
        if number == count:
            stage.peer("p").sends(ORDERS, "1")
        peer.consumes(TAX, selector=selector)
    with pytest.raises(ResourceAllocationError, match="look at the virtual destinations"):
        stage.peer("q").sends(ORDERS, "2")
