"""The index of selectors against asking every one of them, and its bookkeeping."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spanwire.broker.dispatch.connection_output import ConnectionOutput
from spanwire.broker.dispatch.evaluation_context import MessageEvaluationContext
from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.ports import Principal
from spanwire.broker.queue.queue_consumers import QueueConsumer
from spanwire.broker.queue.selection.selector_index import SelectorIndex
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import JmsError, SpanwireError
from spanwire.model.ids import ConsumerId
from spanwire.model.info import ConsumerInfo
from spanwire.model.message import Message
from spanwire.selector.parser import CONVERT_STRING_EXPRESSIONS, parse_selector
from tests.support.selector_values import TypedMessage

NAMES = ("a", "b", "JMSType", "JMSPriority")
TEXTS = st.sampled_from(["x", "y", "1", "01", "-1", "+1", "1.0", "true", "TRUE", ""])
LITERALS = TEXTS.map(lambda text: f"'{text}'") | st.sampled_from(
    ["0", "1", "-1", "1.0", "-1.5", "1L", "0x1", "01", "TRUE", "FALSE", "9223372036854775807", "9223372036854775808"]
)
NAME = st.sampled_from(NAMES)
PLAIN = st.one_of(
    st.tuples(NAME, LITERALS).map(" = ".join),
    st.tuples(LITERALS, NAME).map(" = ".join),
    st.tuples(NAME, LITERALS).map(" <> ".join),
    st.tuples(NAME, st.lists(TEXTS, min_size=1, max_size=3)).map(
        lambda pair: f"{pair[0]} IN ({', '.join([repr(text) for text in pair[1]])})"
    ),
    st.tuples(NAME, st.lists(TEXTS, min_size=1, max_size=3)).map(
        lambda pair: f"{pair[0]} NOT IN ({', '.join([repr(text) for text in pair[1]])})"
    ),
    NAME.map("{} > 0".format),
    NAME.map("{} IS NULL".format),
    NAME.map("{} LIKE '%'".format),
    st.tuples(NAME, NAME).map(" = ".join),
    st.tuples(NAME, NAME).map(lambda pair: f"{pair[0]} + 1 = {pair[1]}"),
)
CONDITIONS = st.recursive(
    PLAIN,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]} AND {pair[1]})"),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]} OR {pair[1]})"),
        inner.map(lambda text: f"NOT ({text})"),
    ),
    max_leaves=5,
)
SELECTORS = st.tuples(st.sampled_from(["", CONVERT_STRING_EXPRESSIONS]), CONDITIONS).map("".join)
VALUES = st.one_of(
    TEXTS.map(lambda text: ("string", text)),
    st.sampled_from([0, 1, -1]).map(lambda number: ("int", number)),
    st.sampled_from([1, 2**63 - 1]).map(lambda number: ("long", number)),
    st.sampled_from([1]).map(lambda number: ("byte", number)),
    st.sampled_from([1.0, -1.5, 2.0**63]).map(lambda number: ("double", number)),
    st.sampled_from([1.0, 16777216.0]).map(lambda number: ("float", number)),
    st.booleans().map(lambda value: ("boolean", value)),
)
MESSAGES = st.builds(
    lambda properties, kind, priority: TypedMessage({"JMSType": kind, "JMSPriority": priority}, properties),
    st.dictionaries(st.sampled_from(["a", "b"]), VALUES),
    st.none() | TEXTS,
    st.integers(0, 2),
)


class SilentConnection:
    def on_completed(self, token: int, error: SpanwireError | None) -> None: ...

    def close_with(self, error: SpanwireError) -> None: ...


class SilentConsumer:
    def dispatch(self, message: Message, sequence: int, redelivery_count: int) -> None: ...

    def dispatch_end(self) -> None: ...

    def close(self, reason: JmsError) -> None: ...

    def switch_to_pull(self) -> bool:
        return False


def consumer(number: int, selector: str | None) -> QueueConsumer:
    info = ConsumerInfo(ConsumerId("ID:c", 1, number), Destination(QUEUE, "Q"))
    output = ConnectionOutput(SilentConnection(), [], MemoryUsage(0))
    parsed = None if selector is None else parse_selector(selector)
    values = MessageEvaluationContext(MessageFormats({}))
    return QueueConsumer(Subscription(info, SilentConsumer(), output, Principal("p"), parsed, values, False), 0, 0)


def matching(consumers: list[QueueConsumer], message: TypedMessage) -> set[QueueConsumer]:
    """Asked one by one."""
    found = set()
    for one in consumers:
        selector = one.subscription.selector
        if selector is None or selector.matches(message):
            found.add(one)
    return found


@given(st.lists(SELECTORS | st.none(), max_size=12), st.lists(MESSAGES, min_size=1, max_size=4), st.data())
def test_nobody_who_wants_a_message_is_left_out_and_nobody_is_asked_twice(
    texts: list[str | None], messages: list[TypedMessage], data: st.DataObject
) -> None:
    consumers = [consumer(number, text) for number, text in enumerate(texts)]
    index = SelectorIndex()
    for one in consumers:
        index.add(one)
    for message in messages:
        groups = index.candidates(message)
        asked = [one for group in groups for one in group.consumers]
        assert len(asked) == len(set(asked))
        assert matching(consumers, message) <= set(asked)
        one_leaves = data.draw(st.booleans())
        if consumers and one_leaves:
            gone = consumers.pop(data.draw(st.integers(0, len(consumers) - 1)))
            assert index.remove(gone)
            assert not index.remove(gone)
        assert index.count == len(consumers)
        assert set(index.everyone()) == set(consumers)


@given(st.lists(SELECTORS | st.none(), max_size=12), MESSAGES)
def test_an_index_that_all_have_left_asks_nobody(texts: list[str | None], message: TypedMessage) -> None:
    index = SelectorIndex()
    consumers = [consumer(number, text) for number, text in enumerate(texts)]
    for one in consumers:
        index.add(one)
    for one in consumers:
        assert index.remove(one)
    before = message.questions
    assert index.candidates(message) == []
    assert message.questions == before


def test_a_thousand_distinct_values_cost_one_question_and_give_one_group() -> None:
    index = SelectorIndex()
    for number in range(1_000):
        index.add(consumer(number, f"kind = 'order' AND account = 'a{number}' AND amount > 10"))
    message = TypedMessage({}, {"kind": ("string", "order"), "account": ("string", "a77"), "amount": ("int", 11)})
    groups = index.candidates(message)
    assert [one.subscription.info.consumer_id.value for group in groups for one in group.consumers][-1] == 77
    assert len(groups) <= 2, "the first selector stands under the value that all share, the others under their own"
    assert message.questions <= 2


def test_consumers_with_one_selector_are_one_group() -> None:
    index = SelectorIndex()
    for number in range(50):
        index.add(consumer(number, "a IN ('x', 'y', 'x')"))
    groups = index.candidates(TypedMessage({}, {"a": ("string", "x")}))
    assert [len(group.consumers) for group in groups] == [50]
