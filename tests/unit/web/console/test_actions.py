"""Operations as forms: what they ask, what they run, where they lead, and what they refuse."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from spanwire.management.tables.operation_table import OPERATIONS, Role
from spanwire.web.console.operations.actions import ACTIONS, OFFERED, path_of
from spanwire.web.console.operations.prompts import PROMPTS, result_text
from spanwire.web.console.pages.dead_letters import chosen
from spanwire.web.routes import application
from tests.support.fake_broker_link import FakeBrokerLink, destination

HOST = "http://127.0.0.1:8161"
OWN = {"Origin": HOST}
ANNA, OTTO, VERA = ("anna", "a-word"), ("otto", "o-word"), ("vera", "v-word")
BACK = "/admin/queue?name=queue%3A%2F%2FA"


def client_of(link: FakeBrokerLink) -> TestClient:
    return TestClient(application(link, is_loopback=True), base_url=HOST, follow_redirects=False)


def asked(link: FakeBrokerLink, command: str) -> dict[str, object]:
    """The arguments of the last request with a command, without the handle."""
    arguments = next(arguments for name, arguments in reversed(link.asked) if name == command)
    return {name: value for name, value in arguments.items() if name != "handle"}


def test_every_operation_has_a_form_or_a_page_of_its_own() -> None:
    forms = {operation.command for operation in OPERATIONS} - set(PROMPTS)
    assert forms == {"browse", "browse-subscription", "send", "trace", "trace-end", "bridge-change"}
    assert {command.command for command in OFFERED} == set(PROMPTS)
    assert len(ACTIONS) == 2 * len(OFFERED)


@pytest.mark.parametrize("operation", OFFERED, ids=path_of)
def test_each_form_runs_its_operation_with_the_role_of_the_api(operation: object) -> None:
    operation = next(one for one in OFFERED if one is operation)
    link = FakeBrokerLink()
    query = {"name": f"{operation.subject}://A"} if operation.subject else {}
    values = {"boolean": "true", "object": "n=1"}
    fields = {argument.name: argument.choices[0] if argument.choices else values.get(argument.type, "7")
              for argument in operation.arguments if argument.name not in ("as_task", "dry_run")}  # fmt: skip
    link.answers["tasks"] = [{"id": "7", "state": "done", "processed": 3}]
    link.answers["browse"] = {"messages": [{}], "looked": 1, "waiting": 1}
    if any(argument.name == "as_task" for argument in operation.arguments):
        link.answers[operation.command] = {"task": "7"}
    client = client_of(link)
    user = OTTO if operation.role is Role.OPERATE else ANNA
    assert client.get(path_of(operation), params=query, auth=user).status_code == 200
    data = {**fields, "back": BACK}
    answer = client.post(path_of(operation), params=query, data=data, headers=OWN, auth=user)
    assert answer.status_code == 303, answer.text
    assert answer.headers["location"].startswith(f"{BACK}&did={operation.command}")
    arguments = asked(link, operation.command)
    assert set(fields) <= set(arguments)
    assert arguments.get("destinations") == ([query["name"]] if operation.subject else None)
    assert client.post(path_of(operation), params=query, data=data, auth=user).status_code == 403
    for argument in operation.arguments:
        if argument.choices:
            answer = client.post(
                path_of(operation), params=query, data={**data, argument.name: "red"}, headers=OWN, auth=user
            )
            assert answer.status_code == 400
            assert f"it is one of {', '.join(argument.choices)}" in answer.text
    lower = OTTO if operation.role is Role.ADMIN else VERA
    assert client.post(path_of(operation), params=query, data=data, headers=OWN, auth=lower).status_code == 403
    assert link.count(operation.command) == 1


def test_a_form_runs_its_operation_once_when_the_broker_starts_again_behind_it() -> None:
    class Restarted(FakeBrokerLink):
        """A broker that starts again behind a purge, whose task goes on."""

        async def ask(self, command: str, **arguments: object) -> object:
            answer = await super().ask(command, **arguments)
            if command == "purge":
                self.forget_handles()
            return answer

    link = Restarted()
    link.answers["purge"] = {"task": "7"}
    link.answers["tasks"] = [{"id": "7", "state": "done", "processed": 3}]
    data = {"name": "queue://A", "back": BACK}
    answer = client_of(link).post("/admin/do/queues/purge", data=data, headers=OWN, auth=OTTO)
    assert (answer.status_code, link.count("purge"), link.count("login")) == (303, 1, 2)


def test_a_confirmation_names_the_count() -> None:
    link = FakeBrokerLink()
    link.answers["destinations"] = [{**destination("queue://A", 4_713), "in_flight": 2}, destination("queue://B", 1)]
    client = client_of(link)
    page = client.get("/admin/do/queues/purge?name=queue://A", auth=OTTO).text
    assert '<button class="danger">Remove 4,711 messages</button>' in page
    page = client.get("/admin/do/queues/purge?name=queue://A&name=queue://B", auth=OTTO).text
    assert "Remove 4,712 messages" in page
    link.answers["browse"] = {"messages": [{}] * 12, "looked": 4_711, "waiting": 4_711}
    page = client.get("/admin/do/queues/purge?name=queue://A&selector=n%3D1", auth=OTTO).text
    assert "Remove 12 messages" in page
    assert asked(link, "browse") == {"destination": "queue://A", "selector": "n=1", "limit": 400}
    link.answers["browse"] = {"messages": [{}] * 400, "looked": 400, "waiting": 4_711}
    assert (
        "Remove at least 400 messages" in client.get("/admin/do/queues/purge?name=queue://A&selector=n", auth=OTTO).text
    )
    assert link.count("purge") == 0


def test_chosen_messages_become_a_selector() -> None:
    assert chosen(["ID:1"]) == "JMSMessageID = 'ID:1'"
    assert chosen(["ID:1", "it's"]) == "JMSMessageID IN ('ID:1', 'it''s')"
    link = FakeBrokerLink()
    link.answers["move"] = {"task": "7"}
    link.answers["tasks"] = [{"id": "7", "state": "done", "processed": 1}]
    data = {"id": "ID:1", "target": "B", "back": BACK}
    answer = client_of(link).post("/admin/do/queues/move?name=queue://A", data=data, headers=OWN, auth=OTTO)
    assert answer.headers["location"] == f"{BACK}&did=move&count=1"
    assert asked(link, "move") == {
        "destinations": ["queue://A"], "selector": "JMSMessageID = 'ID:1'", "target": "B", "as_task": True,
        "follow": False,
    }  # fmt: skip


def test_the_result_is_told_on_the_page_and_a_strange_one_is_not() -> None:
    client = client_of(FakeBrokerLink())
    assert "Removed 1,234 messages." in client.get("/admin/queues?did=purge&count=1234", auth=VERA).text
    for query in ("did=evil&count=1", "did=purge%3Cb%3E", "count=5"):
        assert 'class="notice good" role="status"' not in client.get(f"/admin/queues?{query}", auth=VERA).text
    assert "Removed 0 messages." in client.get("/admin/queues?did=purge&count=x", auth=VERA).text


@pytest.mark.parametrize("command", sorted(PROMPTS))
def test_each_operation_has_a_result_for_people(command: str) -> None:
    assert not set(result_text(command, 1_234)) & set("{}")


def test_whoever_ran_an_operation_sees_its_effect_at_once() -> None:
    link = FakeBrokerLink()
    client = TestClient(application(link, is_loopback=True, now=lambda: 0.0), base_url=HOST, follow_redirects=False)
    assert "Q.NEW" not in client.get("/admin/queues", auth=ANNA).text
    link.answers["destinations"] = [destination("queue://Q.NEW")]
    assert "Q.NEW" not in client.get("/admin/queues", auth=ANNA).text
    client.post("/admin/do/queues/create", data={"name": "Q.NEW"}, headers=OWN, auth=ANNA)
    assert "Q.NEW" in client.get("/admin/queues", auth=ANNA).text


def test_a_long_task_leads_to_its_progress_and_a_failed_one_is_told() -> None:
    link = FakeBrokerLink()
    link.answers["purge"] = {"task": "7"}
    link.answers["tasks"] = [{"id": "7", "operation": "purge", "state": "running", "processed": 3}]
    client = client_of(link)
    purge = "/admin/do/queues/purge?name=queue://A"
    answer = client.post(purge, data={"back": BACK}, headers=OWN, auth=OTTO)
    assert answer.headers["location"] == "/admin/tasks?did=begun&count=0"
    page = client.get(answer.headers["location"], auth=OTTO).text
    assert "/admin/do/tasks/cancel?id=7" in page
    assert "/admin/do/tasks/cancel" not in client.get("/admin/tasks", auth=VERA).text
    link.answers["tasks"] = [{"id": "7", "state": "failed", "error": "the selector is wrong"}]
    answer = client.post(purge, data={"back": BACK}, headers=OWN, auth=OTTO)
    assert (answer.status_code, "the selector is wrong" in answer.text) == (409, True)


@pytest.mark.parametrize(
    "query",
    ["", "name=queue://A.*", "name=queue://A,B", "name=topic://A", "name=temp-queue://A", "name=queue://",
     "&".join(f"name=queue://{number}" for number in range(101))],
)  # fmt: skip
def test_an_operation_has_one_to_a_hundred_names_and_no_pattern(query: str) -> None:
    link = FakeBrokerLink()
    client = client_of(link)
    path = f"/admin/do/queues/purge?{query}"
    assert client.get(path, auth=OTTO).status_code == 400
    assert client.post(path, data={"back": BACK}, headers=OWN, auth=OTTO).status_code == 400
    assert link.count("purge") == 0


@pytest.mark.parametrize("fields", [{"limit": "-1"}, {"limit": "x"}, {"limit": "٣"}, {}])
def test_a_wrong_field_is_refused_before_the_broker_is_asked(fields: dict[str, str]) -> None:
    link = FakeBrokerLink()
    path = "/admin/do/queues/move?name=queue://A"
    assert client_of(link).post(path, data={"back": BACK, **fields}, headers=OWN, auth=OTTO).status_code == 400
    assert link.count("move") == 0


def test_a_queue_is_created_by_the_name_in_the_form() -> None:
    link = FakeBrokerLink()
    client = client_of(link)
    assert 'id="name" name="name" required' in client.get("/admin/do/queues/create", auth=ANNA).text
    data = {"name": "NEW", "back": "/admin/queues"}
    answer = client.post("/admin/do/queues/create", data=data, headers=OWN, auth=ANNA)
    assert (answer.status_code, asked(link, "create")) == (303, {"destinations": ["queue://NEW"]})


def test_a_queue_whose_name_has_wildcards_within_its_parts_is_operated() -> None:
    link = FakeBrokerLink()
    client = client_of(link)
    data = {"name": "<i>*x</i>.>>", "back": "/admin/queues"}
    answer = client.post("/admin/do/queues/pause", data=data, headers=OWN, auth=ANNA)
    assert (answer.status_code, asked(link, "pause")) == (303, {"destinations": ["queue://<i>*x</i>.>>"]})
    for pattern in ("A.*", ">", "*.B", "A,B"):
        answer = client.post("/admin/do/queues/pause", data={**data, "name": pattern}, headers=OWN, auth=ANNA)
        assert (answer.status_code, link.count("pause")) == (400, 1)


def test_a_viewer_sees_no_operations() -> None:
    link = FakeBrokerLink()
    client = client_of(link)
    for path in ("/admin/dead-letters", "/admin/send"):
        assert client.get(path, auth=VERA).status_code == 403
    page = client.get("/admin/queue?name=queue://A", auth=VERA).text + client.get("/admin/queues", auth=VERA).text
    assert "/admin/do/" not in page
    assert "/admin/send" not in page
    assert link.count("browse") == 0


def test_a_setting_without_a_value_stays_as_it_is() -> None:
    link = FakeBrokerLink()
    client = client_of(link)
    path = "/admin/do/queues/settings"
    shown = client.get(path, params={"name": "queue://A"}, auth=ANNA).text
    assert '<option value="">as it is</option>' in shown
    data = {"producer_flow_control": "", "memory_limit_bytes": "7", "blocked_warning_ms": ""}
    assert client.post(path, params={"name": "queue://A"}, data=data, headers=OWN, auth=ANNA).status_code == 303
    assert asked(link, "settings") == {"destinations": ["queue://A"], "memory_limit_bytes": 7}
    data["producer_flow_control"] = "false"
    client.post(path, params={"name": "queue://A"}, data=data, headers=OWN, auth=ANNA)
    assert asked(link, "settings")["producer_flow_control"] is False


def test_a_bound_below_zero_is_written_in_a_form() -> None:
    link = FakeBrokerLink()
    client = client_of(link)
    path = "/admin/do/slow_consumer_strategies/change"
    assert 'pattern="-?[0-9]*"' in client.get(path, params={"name": "topic://>"}, auth=ANNA).text
    data = {"name": "topic://>", "max_slow_count": "-1"}
    assert client.post(path, data=data, headers=OWN, auth=ANNA).status_code == 303
    assert asked(link, "strategy-change") == {"name": "topic://>", "max_slow_count": -1}


def test_a_refused_form_is_shown_again_with_the_reason_and_all_that_was_written() -> None:
    link = FakeBrokerLink()
    link.refusal = "shovel.toml:3: there is no <targetDestination>"
    data = {"definition": "<b>\n[bridges.shovel]", "replace": "true", "format": "yaml", "back": "/admin/bridges"}
    answer = client_of(link).post("/admin/do/bridges/create", data=data, headers=OWN, auth=ANNA)
    assert answer.status_code == 409
    assert 'role="alert">shovel.toml:3: there is no &lt;targetDestination&gt;</p>' in answer.text
    assert ">\n&lt;b&gt;\n[bridges.shovel]</textarea>" in answer.text
    assert '<option value="true" selected>yes</option>' in answer.text
    assert "<option selected>yaml</option>" in answer.text
    assert 'name="back" value="/admin/bridges"' in answer.text


def test_a_wrong_number_leaves_the_other_fields_as_they_were_written() -> None:
    link = FakeBrokerLink()
    data = {"target": "Q.NEW", "limit": "many", "back": BACK}
    answer = client_of(link).post("/admin/do/queues/move?name=queue://A", data=data, headers=OWN, auth=OTTO)
    assert (answer.status_code, link.count("move")) == (400, 0)
    assert 'name="target" value="Q.NEW" required' in answer.text
    assert "limit is a whole number from 0 on" in answer.text


def test_a_choice_that_nobody_has_made_is_the_default_of_the_operation() -> None:
    client = client_of(FakeBrokerLink())
    for path, name in (("/admin/do/bridges/create", "replace"), ("/admin/do/queues/move?name=queue://A", "follow")):
        page = client.get(path, auth=ANNA).text
        assert f'name="{name}"><option value="false">no</option><option value="true">yes' in page
    page = client.get("/admin/do/queues/statistics?name=queue://A", auth=ANNA).text
    assert 'name="enabled"><option value="true">yes</option><option value="false">no' in page


def test_a_list_is_written_with_a_name_a_line() -> None:
    link = FakeBrokerLink()
    data = {"uri": "tcp://b:61616", "queues_lines": "ORDERS.>\r\n\r\n a queue \r\n", "back": "/admin/tasks"}
    answer = client_of(link).post("/admin/do/network_connectors/drain", data=data, headers=OWN, auth=ANNA)
    assert (answer.status_code, asked(link, "drain")["queues"]) == (303, ["ORDERS.>", "a queue"])


def test_what_another_broker_has_opened_is_stopped_and_removed_there_alone() -> None:
    link = FakeBrokerLink()
    summary = link.answers["summary"]
    assert isinstance(summary, dict)
    own = {**summary["network_connectors"][0], "name": "own"}
    link.answers["summary"] = {
        **summary,
        "network_connectors": [own, {**own, "name": "theirs", "accepted": True}],
        "network_settings": [{"name": "own", "autoStart": True}, {"name": "theirs", "autoStart": None}],
    }
    client = client_of(link)
    links = client.get("/admin/network", auth=ANNA).text
    assert "/admin/do/links/stop?connectors=own" in links
    assert "/admin/do/links/stop?connectors=theirs" not in links
    connectors = client.get("/admin/network-connectors", auth=ANNA).text
    assert "connectors/remove?connectors=own" in connectors
    assert "connectors/remove?connectors=theirs" not in connectors
    assert "/admin/do/links/stop" in client.get("/admin/link?name=own", auth=ANNA).text
    theirs = client.get("/admin/link?name=theirs", auth=ANNA).text
    assert "/admin/do/links/stop" not in theirs
    assert "has opened this link by a duplex network connector of its own" in theirs
