"""Steps of routes that call functions of the operator, and routes that call each other."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire import client
from spanwire.bridges.engine.changed_messages import text_of, with_text
from spanwire.bridges.engine.route_calls import Answer
from spanwire.bridges.files.definition_json import definition_of, plain_definition
from spanwire.bridges.files.route_bridges import bridges_of
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.model.route_definition import RouteDefinition
from spanwire.bridges.model.route_diagram import route_diagram
from spanwire.bridges.running.convertors import convertor_obstacles
from spanwire.cli.main import main
from spanwire.model.errors import ConfigurationError
from spanwire.model.message_view import STRING_VALUE, TEXT
from spanwire.routes.model import EMBEDDED, SPARK
from spanwire.routes.readers.parsing import read_routes
from spanwire.routes.readers.placeholders import Placeholders
from spanwire.testing import Broker
from tests.support.bridge_dialogue import Content, text_messages
from tests.support.route_world import BROKERS, FAIL_AFTER, FAIL_BEFORE, OK, RouteWorld, route

NOTHING: Final = Placeholders({}, {})
TO: Final = "{to: 'far:queue:B'}"
PROCESS: Final = "{process: {ref: mark}}"
FAULTS: Final = st.lists(st.sampled_from([OK, OK, OK, FAIL_BEFORE, FAIL_AFTER]), max_size=60)


def message(number: int, text: str, **properties: str) -> BridgeMessage:
    typed = {name: (STRING_VALUE, value) for name, value in properties.items()}
    return BridgeMessage(f"ID:{number}", TEXT, Content(text, typed), 100)  # type: ignore[arg-type]


def mark(one: BridgeMessage) -> Answer:
    text = text_of(one) or ""
    return "no good" if "bad" in text else with_text(one, f"<{text}>")


def played(steps: str, *messages: BridgeMessage, dead_letter: str = "") -> RouteWorld:
    world = RouteWorld(route(steps, dead_letter), list(messages))
    world.functions = {"mark": mark}
    world.play()
    return world


def test_a_function_changes_each_message() -> None:
    assert played(f"{PROCESS}, {TO}", *text_messages(3)).texts() == ["<text 0>", "<text 1>", "<text 2>"]
    assert played(f"{{bean: {{ref: mark, method: convert}}}}, {TO}", message(1, "a")).texts() == ["<a>"]
    assert played(f"{{to: 'bean:mark'}}, {{to: 'bean:mark?method=convert'}}, {TO}", message(1, "a")).texts() == [
        "<<a>>"
    ]


def test_a_function_sees_what_the_steps_before_have_made_and_branches_keep_its_changes() -> None:
    steps = (
        "{split: {tokenize: ','}}, {filter: {simple: \"${body} != 'x'\", steps: ["
        + f"{PROCESS}, {TO}]}}}}, {{wireTap: 'far:queue:C'}}"
    )
    world = played(steps, message(1, "a,x,b"))
    assert (world.texts(0), world.texts(1)) == (["<a>", "<b>"], ["a", "x", "b"])
    assert world.calls == [["mark", "mark"]]


def test_a_message_for_which_a_function_fails_is_a_dead_letter() -> None:
    world = played(f"{PROCESS}, {TO}", message(1, "a"), message(2, "bad"), message(3, "c"), dead_letter="near:queue:D")
    assert (world.texts(0), world.texts(1)) == (["<a>", "<c>"], ["bad"])
    assert world.sent[1][0].property_values()["dlqDeliveryFailureCause"] == (STRING_VALUE, "no good")
    world = played(f"{PROCESS}, {TO}", message(1, "a"), message(2, "bad"), message(3, "c"))
    assert world.texts()[-1] == "<c>"
    assert [one.message_id for one in world.dead] == ["ID:2"]


def test_groups_and_keys_do_not_see_the_passes_of_a_message_that_waits_for_an_answer() -> None:
    steps = (
        "{idempotentConsumer: {header: k}}, {throttle: 2}, "
        + PROCESS
        + ", {aggregate: {correlationExpression: {header: g}, completionSize: 2, aggregationStrategy: joined}}, "
        + f"{PROCESS}, {TO}"
    )
    messages = [message(number, str(number), k=str(number // 2), g="g") for number in range(8)]
    world = played(steps, *messages, dead_letter="near:queue:D")
    assert world.texts() == ["<<0><2>>", "<<4><6>>"]
    assert all(seconds < 2.0 for seconds in world.held)


@given(FAULTS)
def test_failures_at_any_action_lose_nothing_of_a_route_with_functions(outcomes: list[str]) -> None:
    definition = route(f"{{idempotentConsumer: {{simple: '${{body}}'}}}}, {PROCESS}, {TO}")
    world = RouteWorld(definition, text_messages(12))
    world.functions = {"mark": mark}
    world.play(outcomes)
    assert set(world.texts()) == {f"<text {number}>" for number in range(12)}


def test_a_route_with_functions_reaches_the_child_and_shows_them() -> None:
    definition = route(f"{PROCESS}, {TO}")
    assert definition_of(json.loads(json.dumps(plain_definition(definition)))) == definition
    assert "the convertor mark" in route_diagram(definition)


@pytest.mark.parametrize(
    ("step", "told"),
    [
        ("{process: {ref: '../x'}}", "is no name of a convertor"),
        ("{bean: {ref: mark, method: run}}", "the function of a convertor is convert"),
        ("{bean: {beanType: com.x.Y}}", "beanType is a Java class, which does not run here"),
        ("{process: {}}", "process needs ref"),
        ("{to: 'seda:x'}", "seda: is a queue in the memory of Camel"),
    ],
)
def test_what_is_no_function_is_refused(step: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(told)):
        route(f"{step}, {TO}")


def test_a_java_bean_of_the_file_is_refused_by_its_class() -> None:
    xml = b"""<beans><bean id="mark" class="com.x.Mark"/><camelContext><route><from uri="jms:A"/>
<process ref="mark"/><to uri="jms:B"/></route></camelContext></beans>"""
    with pytest.raises(ConfigurationError, match=r"^r\.xml:2: the bean mark is com\.x\.Mark, a Java class"):
        read_routes(xml, "r.xml", NOTHING)


def test_spark_refuses_process() -> None:
    text = f"- from: {{uri: 'near:queue:A', steps: [{PROCESS}, {TO}]}}\n"
    with pytest.raises(ConfigurationError, match="process and bean are for the engine embedded"):
        read_routes(text.encode(), "r.yaml", NOTHING, BROKERS).only(SPARK)


FILE: Final = """\
def convert(message):
    if message.body == "bad":
        raise ValueError("no good")
    message.body = message.body.upper()
    message.properties["seen"] = 1
"""


def test_a_file_of_the_directory_changes_the_messages_of_a_running_route(tmp_path: Path) -> None:
    convertors = tmp_path / "convertors"
    convertors.mkdir(mode=0o700)
    (convertors / "mark.py").write_text(FILE)
    (convertors / "mark.py").chmod(0o600)
    file = tmp_path / "r.yaml"
    file.write_text(
        f"- route: {{id: r, deadLetter: 'near:queue:D', from: {{uri: 'near:queue:A', steps: [{PROCESS}, "
        "{to: 'near:queue:B'}]}}\n"
    )
    with Broker() as broker, client.connect(broker.url) as connection, connection.session() as session:
        producer = session.create_producer("queue://A")
        for text in ("a", "bad"):
            producer.send(text)
        arguments = ["bridge", "run", str(file), "--broker", f"near={broker.url}", "--untilEmpty"]
        assert main(arguments) == 1  # without the directory
        assert main([*arguments, "--convertors", str(convertors)]) == 0
        changed = session.create_consumer("queue://B").receive(5.0)
        dead = session.create_consumer("queue://D").receive(5.0)
    assert changed is not None and (changed.body, changed.properties["seen"]) == ("A", 1)
    assert dead is not None and "mark.py:3: ValueError: no good" in str(dead.properties["dlqDeliveryFailureCause"])


def test_a_missing_function_is_told_before_the_start(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    (line,) = convertor_obstacles([route(f"{PROCESS}, {TO}")], tmp_path)
    assert line.startswith("r.yaml:1: route r: the convertor mark has no file")


DIRECT: Final = """\
- route: {id: main, from: {uri: "near:queue:A", steps: [%s]}}
- route:
    id: called
    from:
      uri: "direct:enrich"
      steps:
        - setHeader: {name: n, constant: "7"}
        - filter: {simple: "${body} == 'x'"}
        - to: "far:queue:X"
"""


def called(steps: str, more: str = "") -> RouteDefinition:
    text = DIRECT % steps + more
    (definition,) = bridges_of(read_routes(text.encode(), "r.yaml", NOTHING, BROKERS).only(EMBEDDED).routes)
    assert isinstance(definition, RouteDefinition)
    return definition


def test_a_called_route_changes_the_message_of_its_caller() -> None:
    world = RouteWorld(called("{to: 'direct:enrich'}, {to: 'far:queue:B'}"), [message(1, "x"), message(2, "y")])
    world.play()
    assert (world.texts(0), world.texts(1)) == (["x"], ["x", "y"])
    assert [one.property_values()["n"] for one in world.sent[1]] == [(STRING_VALUE, "7")] * 2


def test_a_wire_tap_calls_with_a_copy_and_branches_call_too() -> None:
    steps = (
        "{wireTap: 'direct:enrich'}, {choice: {when: [{simple: \"${body} == 'y'\", steps: [{to: 'direct:enrich'}]}]}}"
    )
    world = RouteWorld(called(f"{steps}, {{to: 'far:queue:B'}}"), [message(1, "x"), message(2, "y")])
    world.play()
    assert (world.texts(0), world.texts(1)) == (["x"], ["x", "y"])
    assert [one.property_values() for one in world.sent[1]] == [{}, {}]


@pytest.mark.parametrize(
    ("steps", "more", "told"),
    [
        ("{to: 'direct:enrch'}", "", "there is no route from 'direct:enrch'; did you mean direct:enrich?"),
        (
            "{to: 'direct:a'}",
            "- from: {uri: 'direct:a', steps: [{to: 'direct:b'}]}\n"
            "- from: {uri: 'direct:b', steps: [{to: 'direct:a'}]}\n",
            "direct:a → direct:b → direct:a is a circle",
        ),
        (
            "{to: 'far:queue:B'}",
            "- from: {uri: 'direct:enrich', steps: [{to: 'far:queue:B'}]}\n",
            "there are two routes",
        ),
        (
            "{to: 'direct:a'}",
            "- route: {deadLetter: 'far:queue:D', from: {uri: 'direct:a', steps: [{to: 'far:queue:B'}]}}\n",
            "the route from direct:a has a deadLetter, and the one of its caller main counts",
        ),
        (
            "{to: 'direct:a'}",
            "- route: {engine: spark, from: {uri: 'direct:a', steps: [{to: 'far:queue:B'}]}}\n",
            "the engine of its caller main counts",
        ),
    ],
)
def test_a_call_that_cannot_be_is_refused(steps: str, more: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(told)):
        called(steps, more)


def test_routes_that_call_each_other_many_times_are_bounded() -> None:
    chain = "".join(
        f"- from: {{uri: 'direct:r{number}', steps: "
        f"[{{to: 'direct:r{number + 1}'}}, {{to: 'direct:r{number + 1}'}}]}}\n"
        for number in range(30)
    )
    last = "- from: {uri: 'direct:r30', steps: [{to: 'far:queue:B'}]}\n"
    with pytest.raises(ConfigurationError, match="more than 2000 steps"):
        called("{to: 'direct:r0'}", chain + last)


@pytest.mark.parametrize("last", ["{filter: {simple: \"${body} == 'y'\"}}", "{to: 'direct:end'}"])
def test_calls_without_a_step_of_their_own_are_bounded_too(last: str) -> None:
    chain = "".join(
        f"- from: {{uri: 'direct:r{number}', steps: "
        f"[{{to: 'direct:r{number + 1}'}}, {{to: 'direct:r{number + 1}'}}]}}\n"
        for number in range(12)
    )
    ends = f"- from: {{uri: 'direct:r12', steps: [{last}]}}\n- from: {{uri: 'direct:end', steps: []}}\n"
    with pytest.raises(ConfigurationError, match="more than 2000 steps"):
        called("{to: 'direct:r0'}", chain + ends)


def test_direct_belongs_to_both_engines() -> None:
    text = (
        "- from: {uri: 'near:queue:A', steps: [{to: 'direct:a'}]}\n"
        "- from: {uri: 'direct:a', steps: [{to: 'far:queue:B'}]}\n"
    )
    file = read_routes(text.encode(), "r.yaml", NOTHING, BROKERS)
    assert file.only(SPARK).routes == file.only(EMBEDDED).routes
    assert len(file.routes) == 1
