"""The management API: lists, single objects, operations and their description."""

from __future__ import annotations

import re

import pytest
from httpx import Response
from starlette.testclient import TestClient

from spanwire.management.tables.attributes import BOOLEAN, INTEGER, LIST, OBJECT, TEXT
from spanwire.management.tables.operation_table import (
    COMMAND_ROLES,
    OPERATIONS,
    QUESTIONS,
    Argument,
    Operation,
    Role,
)
from spanwire.management.tables.view_table import BROKER, QUEUES, VIEWS
from spanwire.web.calls import json_refusal
from spanwire.web.openapi import document
from spanwire.web.routes import ROUTES, application
from tests.support.fake_broker_link import FakeBrokerLink, destination

ANNA, OTTO, VERA = ("anna", "a-word"), ("otto", "o-word"), ("vera", "v-word")


def client_of(link: FakeBrokerLink) -> TestClient:
    return TestClient(application(link, is_loopback=True), base_url="http://127.0.0.1:8161")


def test_every_view_is_a_list() -> None:
    client = client_of(FakeBrokerLink())
    for view in VIEWS:
        answer = client.get(f"/api/v1/{view.name}", auth=VERA)
        assert answer.status_code == 200
        if view is not BROKER:
            assert set(answer.json()) == {"items", "total", "page", "size"}
    assert client.get("/api/v1/links", auth=VERA).json()["items"][0]["name"] == "to-billing"
    assert client.get("/api/v1/queues?destination=*A", auth=VERA).json()["total"] == 1
    assert client.get("/api/v1/queues?destinatio=*A", auth=VERA).status_code == 400


def test_the_broker_has_its_totals() -> None:
    link = FakeBrokerLink()
    link.answers["subscriptions"] = [
        {"client_id": "c", "name": "n", "topic": "topic://N.>", "pending": 40},
        {"client_id": "c", "name": "m", "topic": "topic://T", "pending": 1_000},
    ]
    link.answers["destinations"] = [destination("queue://A", 3, 10), destination("topic://T", 1_000, 1_000)]
    broker = client_of(link).get("/api/v1/broker", auth=VERA).json()
    assert (broker["name"], broker["memory_percent"], broker["disk_full"]) == ("orders", 20, False)
    assert (broker["destinations"], broker["enqueued"], broker["pending"]) == (2, 1_010, 1_043)
    assert link.count("status") == 0


@pytest.mark.parametrize("name", ["A", "A/B", "A.B", "Ä ö"])
def test_a_queue_is_found_by_its_name(name: str) -> None:
    link = FakeBrokerLink()
    link.answers["destinations"] = [destination(f"queue://{name}", 3), destination(f"topic://{name}")]
    client = client_of(link)
    assert client.get(f"/api/v1/queues/{name}", auth=VERA).json()["pending"] == 3
    assert client.get(f"/api/v1/topics/{name}", auth=VERA).json()["pending"] == 0
    missing = client.get("/api/v1/queues/missing", auth=VERA)
    assert (missing.status_code, missing.json()["detail"]) == (404, "there is no queue://missing")


def test_a_list_has_the_attributes_of_the_table_and_its_own_kind_alone() -> None:
    link = FakeBrokerLink()
    link.answers["destinations"] = [
        {**destination(name, pending), "memory_limit_bytes": 40}
        for name, pending in (("queue://A", 1), ("temp-queue://B", 3), ("topic://T", 0), ("queue://C", 3))
    ]
    page = client_of(link).get("/api/v1/queues?sort=-pending", auth=VERA).json()
    names = ["temp-queue://B", "queue://C", "queue://A"]
    assert [row["destination"] for row in page["items"]] == names
    listed = {attribute.name for attribute in QUEUES.attributes if not attribute.detail}
    assert set(page["items"][0]) == listed
    assert (page["items"][0]["memory_percent"], page["items"][0]["average_blocked_ms"]) == (25, 15.0)
    assert len(client_of(link).get("/api/v1/topics", auth=VERA).json()["items"]) == 1


def test_an_operation_is_passed_on_with_the_handle_of_its_caller() -> None:
    link = FakeBrokerLink()
    link.answers["purge"] = [{"destination": "queue://A", "removed": 3}]
    answer = client_of(link).post("/api/v1/queues/A/purge", json={"selector": "n = 1"}, auth=OTTO)
    assert answer.json() == {"result": [{"destination": "queue://A", "removed": 3}]}
    command, arguments = link.asked[-1]
    handle = arguments.pop("handle")
    assert handle
    assert (command, arguments) == ("purge", {"destinations": ["queue://A"], "selector": "n = 1"})


@pytest.mark.parametrize("refusal", ["", "there is no room"], ids=["done", "refused"])
def test_the_view_after_an_operation_is_made_anew(refusal: str) -> None:
    link = FakeBrokerLink()
    client = client_of(link)
    for _ in range(2):
        assert client.get("/api/v1/queues", auth=OTTO).status_code == 200
    assert link.count("changes") == 1
    link.refusal = refusal
    client.post("/api/v1/queues/A/pause", auth=OTTO)
    link.refusal = ""
    bean = "org.apache.activemq:type=Broker,brokerName=orders,destinationType=Queue,destinationName=A"
    assert client.get("/api/v1/queues", auth=OTTO).status_code == 200
    assert link.count("changes") == 2
    client.post("/api/jolokia", json={"type": "exec", "mbean": bean, "operation": "pause()"}, auth=OTTO)
    client.get("/api/v1/queues", auth=OTTO)
    assert link.count("changes") == 3


def test_an_operation_needs_no_body_where_nothing_is_required() -> None:
    link = FakeBrokerLink()
    client = client_of(link)
    assert client.post("/api/v1/queues/A/pause", auth=OTTO).status_code == 200
    assert client.post("/api/v1/queues/A/browse", json={"limit": 5}, auth=OTTO).status_code == 200
    assert link.asked[-1][1]["destination"] == "queue://A"
    assert client.post("/api/v1/subscriptions/remove", auth=ANNA).status_code == 400


def test_a_refusal_of_the_broker_is_a_problem() -> None:
    link = FakeBrokerLink()
    link.refusal = "there is no queue A"
    answer = client_of(link).post("/api/v1/queues/A/purge", auth=OTTO)
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json() == {
        "type": "about:blank", "title": "Conflict", "status": 409, "detail": "there is no queue A",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"[]", 400),
        (b"1", 400),
        (b"\xff", 400),
        (b"[" * 16_000, 400),
        (b'{"a":' * 3_000, 400),
        (b'{"selector": 1}', 400),
        (b'{"selector": null}', 400),
        (b'{"limit": -1}', 400),
        (b'{"destinations": ["B"]}', 400),
        (b'{"handle": "x"}', 400),
        (b'{"command": "stop"}', 400),
    ],
)
def test_s24_a_wrong_body_is_refused_before_the_broker_is_asked(body: bytes, status: int) -> None:
    link = FakeBrokerLink()
    answer = client_of(link).post(
        "/api/v1/queues/A/purge", content=body, headers={"Content-Type": "application/json"}, auth=OTTO
    )
    assert answer.status_code == status
    assert link.count("purge") == 0


@pytest.mark.parametrize("content_type", ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_s23_a_body_that_a_form_could_send_is_refused(content_type: str) -> None:
    link = FakeBrokerLink()
    answer = client_of(link).post(
        "/api/v1/queues/A/purge", content=b"{}", headers={"Content-Type": content_type}, auth=OTTO
    )
    assert answer.status_code == 415
    assert link.count("purge") == 0


@pytest.mark.parametrize("name", ["%3E", "A.*", "A,B", "*"])
def test_an_operation_covers_one_queue_and_no_pattern(name: str) -> None:
    link = FakeBrokerLink()
    assert client_of(link).post(f"/api/v1/queues/{name}/purge", auth=ANNA).status_code == 400
    assert link.count("purge") == 0


def test_s20_the_commands_of_operations_are_a_closed_list() -> None:
    assert {operation.command for operation in OPERATIONS} == {
        "trace", "trace-end",
        "browse", "purge", "retry", "pause", "resume", "delete", "remove-subscription", "disconnect", "network-start",
        "network-stop", "bridge-pause", "bridge-resume", "bridge-restart", "log-level", "create", "statistics",
        "reset-statistics", "move", "copy", "send", "create-subscription", "commit-branch", "roll-back-branch",
        "end-consumer", "task-cancel", "job-remove", "jobs-remove", "connector-start", "connector-stop", "network-add",
        "network-remove", "network-reset", "connector-add", "connector-remove", "connector-reset", "limits", "settings",
        "strategy-change", "reset-producer", "reset-consumer", "ungroup", "task-resume", "task-undo",
        "connector-rebalance", "browse-subscription", "drain", "link-drain", "bridge-create", "bridge-delete",
        "bridge-change",
    }  # fmt: skip
    client = client_of(FakeBrokerLink())
    for command in ("stop", "reload", "login", "exec", "purge/../stop"):
        assert client.post(f"/api/v1/queues/A/{command}", auth=ANNA).status_code in (404, 405)
        assert client.post(f"/api/v1/{command}", auth=ANNA).status_code in (404, 405)


def test_a_question_passes_its_parameters_on_and_refuses_others() -> None:
    link = FakeBrokerLink()
    link.answers["why"] = {"broker": "b", "kind": "queue", "explanations": []}
    client = client_of(link)
    answer = client.get("/api/v1/why", params={"name": "Q", "kind": "queue"}, auth=VERA)
    assert answer.json() == link.answers["why"]
    assert client.get("/api/v1/why", auth=VERA).status_code == 400
    assert client.get("/api/v1/why", params={"name": "Q", "colour": "red"}, auth=VERA).status_code == 400
    assert client.get("/api/v1/why", params={"name": "Q"}).status_code == 401
    assert link.count("why") == 1


def test_operations_have_the_role_that_the_broker_checks() -> None:
    for operation in OPERATIONS:
        assert COMMAND_ROLES[operation.command] is operation.role
        assert operation.role > Role.VIEW


def test_the_description_has_every_route_with_role_login_and_references_that_exist() -> None:
    answer = client_of(FakeBrokerLink()).get("/api/v1/openapi.json", auth=VERA)
    described = answer.json()
    assert described == document(ROUTES)
    methods = {
        (method.upper(), path): node for path, nodes in described["paths"].items() for method, node in nodes.items()
    }
    rows = [
        route
        for route in ROUTES
        if (not route.is_messaging or route.schema is not None) and route.refusal is json_refusal
    ]
    assert methods.keys() == {(route.method, route.path.replace("{name:path}", "{name}")) for route in rows}
    for route in rows:
        node = methods[route.method, route.path.replace("{name:path}", "{name}")]
        assert node["x-role"] == route.role.name.lower()
        assert bool(node["security"]) is (route.role is not Role.NONE or route.is_messaging)
    identifiers = [node["operationId"] for node in methods.values()]
    assert len(set(identifiers)) == len(identifiers)
    names = set(described["components"]["schemas"])
    assert {
        text.rpartition("/")[2].rstrip('"')
        for text in answer.text.split('"$ref":"')[1:]
        for text in [text.partition('"')[0]]
    } <= names


def test_the_description_says_which_values_count() -> None:
    paths = document(ROUTES)["paths"]
    assert isinstance(paths, dict)
    send = paths["/api/v1/queues/{name}/send"]["post"]["requestBody"]
    assert send["required"]
    assert send["content"]["application/json"]["schema"]["properties"]["priority"]["maximum"] == 9
    assert not paths["/api/v1/queues/{name}/purge"]["post"]["requestBody"]["required"]
    assert set(paths["/api/v1/queues/{name}/purge"]["post"]["responses"]) == {"200", "202", "default"}
    filters = {one["name"]: one["schema"] for one in paths["/api/v1/queues"]["get"]["parameters"]}
    assert filters["paused"] == {"enum": ["true", "false"]}
    for value, counts in ((">5", True), ("-1.5", True), ("", False), ("x", False)):
        assert (re.search(filters["pending"]["pattern"], value) is not None) is counts
        assert (
            client_of(FakeBrokerLink()).get("/api/v1/queues", params={"pending": value}, auth=VERA).status_code == 200
        ) is counts
    assert paths["/health/ready"]["get"]["responses"]["503"]["content"].keys() == {"application/health+json"}


@pytest.mark.parametrize(
    ("path", "allowed"),
    [("/api/v1/session", "DELETE, POST"), ("/api/v1/broker", "GET, HEAD"), ("/api/v1/tasks/cancel", "POST")],
)
def test_another_method_is_refused_with_all_methods_of_the_path(path: str, allowed: str) -> None:
    answer = client_of(FakeBrokerLink()).request("OPTIONS", path, auth=VERA)
    assert (answer.status_code, answer.headers["allow"]) == (405, allowed)


def test_answers_hold_to_the_description() -> None:
    described = document(ROUTES)
    components = described["components"]
    assert isinstance(components, dict)
    client = client_of(FakeBrokerLink())
    for view in VIEWS:
        answer = client.get(f"/api/v1/{view.name}", auth=VERA).json()
        schema = components["schemas"][view.name]
        for row in [answer] if view is BROKER else answer["items"]:
            assert set(row) <= set(schema["properties"])
            assert set(schema["required"]) <= set(row)


def test_a_task_is_accepted_and_named() -> None:
    link = FakeBrokerLink()
    link.answers["purge"] = {"task": "7"}
    link.answers["tasks"] = [{"id": "7", "operation": "purge", "state": "running", "processed": 5}]
    client = client_of(link)
    answer = client.post("/api/v1/queues/A/purge", json={"as_task": True}, auth=OTTO)
    assert (answer.status_code, answer.json()) == (202, {"result": {"task": "7"}})
    page = client.get(answer.headers["Location"], auth=VERA).json()
    assert (page["total"], page["items"][0]["processed"]) == (1, 5)
    assert client.post("/api/v1/tasks/cancel", json={"id": "7"}, auth=VERA).status_code == 403
    assert client.post("/api/v1/tasks/cancel", json={"id": "7"}, auth=OTTO).status_code == 200


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.path)
def test_an_answer_with_a_task_is_one_that_the_description_has(operation: Operation) -> None:
    link = FakeBrokerLink()
    link.answers[operation.command] = {"task": "7"}
    answer = client_of(link).post(f"/api/v1{operation.path.format(name='A')}", json=arguments_of(operation), auth=ANNA)
    described = responses_of(operation)[str(answer.status_code)]
    assert isinstance(described, dict)
    assert answer.headers["content-type"] in described["content"]
    assert set(described.get("headers", {})) == ({"Location"} & {name.title() for name in answer.headers})
    assert answer.json() == {"result": {"task": "7"}}


def test_the_operations_that_may_begin_a_task_are_these() -> None:
    assert {operation.path for operation in OPERATIONS if operation.may_begin_task} == {
        "/network_connectors/drain", "/queues/{name}/copy", "/queues/{name}/move", "/queues/{name}/purge",
        "/queues/{name}/retry", "/tasks/resume", "/tasks/undo",
    }  # fmt: skip


def responses_of(operation: Operation) -> dict[str, object]:
    """Return the described answers to an operation by status."""
    paths = document(ROUTES)["paths"]
    assert isinstance(paths, dict)
    return dict(paths[f"/api/v1{operation.path}"]["post"]["responses"])


CHOSEN = [(one, argument) for one in (*OPERATIONS, *QUESTIONS) for argument in one.arguments if argument.choices]


def test_some_operations_and_questions_have_choices() -> None:
    assert {operation in QUESTIONS for operation, _ in CHOSEN} == {True, False}


@pytest.mark.parametrize(("operation", "argument"), CHOSEN, ids=lambda one: getattr(one, "path", None) or one.name)
def test_a_value_outside_of_the_choices_is_refused_with_their_names(operation: Operation, argument: Argument) -> None:
    link = FakeBrokerLink()
    client = client_of(link)
    path = f"/api/v1{operation.path.format(name='A')}"

    def ask(value: str) -> Response:
        content = {**arguments_of(operation), argument.name: value}
        is_question = operation in QUESTIONS
        answer: Response = (
            client.get(path, params=content, auth=ANNA) if is_question else client.post(path, json=content, auth=ANNA)
        )
        return answer

    for value in ("red", "", argument.choices[0].upper()):
        answer = ask(value)
        assert answer.status_code == 400
        names = ", ".join(argument.choices)
        assert answer.json()["detail"] == f"{argument.name} is {value!r}; it is one of {names}"
    assert link.count(operation.command) == 0
    for value in argument.choices:
        assert ask(value).status_code == 200
    assert link.count(operation.command) == len(argument.choices)


def arguments_of(operation: Operation) -> dict[str, object]:
    """Return the required arguments of an operation, each with a valid value."""
    values: dict[str, object] = {TEXT: "x", LIST: ["x"], OBJECT: {}, BOOLEAN: True, INTEGER: 1}
    return {one.name: values[one.type] for one in operation.arguments if one.required}


def test_bridges_are_created_and_deleted_by_administrators() -> None:
    link = FakeBrokerLink()
    link.answers["bridge-create"] = [{"name": "b", "state": "stopped", "note": ""}]
    link.answers["bridge-delete"] = [{"name": "b", "state": "running"}]
    client = client_of(link)
    definition = {"definition": "[bridges.b]\n", "format": "toml", "replace": True}
    assert client.post("/api/v1/bridges/create", auth=OTTO, json=definition).status_code == 403
    assert client.post("/api/v1/bridges/create", auth=ANNA, json=definition).status_code == 200
    assert client.post("/api/v1/bridges/create", auth=ANNA, json={"format": "toml"}).status_code == 400
    assert client.post("/api/v1/bridges/delete", auth=ANNA, json={"bridges": ["b"]}).status_code == 200
    asked = [(command, arguments) for command, arguments in link.asked if command.startswith("bridge-")]
    assert [command for command, _ in asked] == ["bridge-create", "bridge-delete"]
    assert {name: asked[0][1][name] for name in definition} == definition
