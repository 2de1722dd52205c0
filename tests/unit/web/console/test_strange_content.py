"""Markup in every text that a client can set: a crawl over all pages finds none of it as markup."""

from __future__ import annotations

import shlex
from html.parser import HTMLParser
from urllib.parse import urljoin, urlsplit

from starlette.testclient import TestClient

from spanwire.management.beans.operations import BRIDGE_PARAMETERS
from spanwire.management.tables.attributes import BOOLEAN, INTEGER, LIST, NUMBER, OBJECT, ViewTable
from spanwire.management.tables.network_tables import LINKS
from spanwire.management.tables.view_table import BROKER, QUEUES, STATUS_PARTS, TOPICS, VIEWS
from spanwire.pipeline.watch.status import RUNNING, PipelineStatus, RouteStatus, encode
from spanwire.web.console.operations.actions import OFFERED, path_of
from spanwire.web.routes import application
from tests.support.fake_broker_link import SUMMARY, FakeBrokerLink

HOST = "http://127.0.0.1:8161"
ANNA = ("anna", "a-word")
CANARY = "\"'><canary onclick=alert(1)></td></table><script>alert(1)</script>{{7*7}}{% x %}&lt;canary&gt;"
MAX_PAGES = 600
ELEMENTS = frozenset(
    "a body br button code dd details div dl dt figcaption figure footer form h1 h2 head header html img input label li"
    " link main meta meter nav option p path pre script section select small span strong summary svg table tbody td"
    " text textarea th thead time title tr ul circle datalist defs h3 marker ol rect".split()
)


class Page(HTMLParser):
    """Collects links, and asserts that the page has the elements and attributes of the templates alone."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ELEMENTS, tag
        values = dict(attrs)
        assert not any(name.startswith("on") or name == "style" for name in values)
        if tag == "script":
            assert str(values["src"]).startswith("/admin/assets/")
        if tag not in ("br", "img", "input", "link", "meta"):
            self.open.append(tag)
        if tag == "a":
            self.links.append(str(values["href"]))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ELEMENTS, tag

    def handle_endtag(self, tag: str) -> None:
        if tag == "html":
            self.open.clear()
            return
        while self.open and self.open[-1] in ("li", "option", "p") and self.open[-1] != tag:
            self.open.pop()
        assert self.open and self.open.pop() == tag, tag


def row_of(view: ViewTable) -> dict[str, object]:
    """A row whose texts are all canaries."""
    plain: dict[str, object] = {
        INTEGER: 7, NUMBER: 7.5, BOOLEAN: True, LIST: [CANARY], OBJECT: {CANARY: CANARY},
    }  # fmt: skip
    return {one.name: plain.get(one.type, CANARY) for one in view.attributes}


def strange_broker() -> FakeBrokerLink:
    link = FakeBrokerLink()
    summary: dict[str, object] = {**SUMMARY, **row_of(BROKER)}
    for view in VIEWS:
        if view.name in STATUS_PARTS:
            row: dict[str, object] = {**row_of(view), "ways": [[CANARY, f"{CANARY}2"]]}
            summary[STATUS_PARTS[view.name]] = [row, {**row, "accepted": False}]
        elif view not in (BROKER, QUEUES, TOPICS):
            link.answers[view.command] = [row_of(view)]
    link.answers["summary"] = summary
    link.answers["destinations"] = [
        {**row_of(QUEUES), "destination": f"{scheme}://{CANARY}", "memory_limit_bytes": 0}
        for scheme in ("queue", "topic", "temp-queue")
    ]
    message = {
        "message_id": CANARY, "kind": CANARY, "original_destination": CANARY, "properties": {CANARY: CANARY},
        "body": CANARY, "broker_path": [CANARY], "correlation_id": CANARY, "timestamp_ms": 5,
    }  # fmt: skip
    bodies: list[object] = [CANARY, {CANARY: CANARY}, [CANARY], {"base64": CANARY}]
    messages = [{**message, "body": body} for body in bodies]
    messages.append({"message_id": CANARY, "fault": CANARY, "properties": {"dlqDeliveryFailureCause": CANARY}})
    told = {"name": CANARY, "id": CANARY, "kind": CANARY, "silence": CANARY, "links": [row_of(LINKS)]}
    link.answers["network"] = {"brokers": [{**told, "silence": ""}, {**told, "name": f"{CANARY}3"}]}
    link.answers["browse"] = {"messages": messages, "looked": 5, "waiting": 5, "in_flight": 1}
    evidence = [
        {"text": CANARY, "broker": broker, "object": f"{start}{CANARY}", "time_ms": 5}
        for broker in (CANARY, f"{CANARY}2")
        for start in ("", "queue://", "connection ", "link ", "consumer ")
    ]
    advice = [CANARY, f"do: spanwire why link {CANARY}", f"do: spanwire queue resume {shlex.quote(CANARY)}"]
    explanation = {"broker": CANARY, "subject": CANARY, "cause": CANARY, "sentence": CANARY, "evidence": evidence,
                   "advice": advice}  # fmt: skip
    link.answers["why"] = {"broker": CANARY, "kind": CANARY, "explanations": [explanation]}
    steps = [
        {"broker": broker, "time_ms": 5, "message_id": CANARY, "step": CANARY, "destination": CANARY,
         "location": CANARY, "detail": CANARY, "hops": 0, "deliveries": 2}
        for broker in (CANARY, f"{CANARY}2")
    ]  # fmt: skip
    told_of = [{"broker": CANARY, "silence": CANARY}, {"broker": CANARY, "offset_ms": -3, "uncertain_ms": 2}]
    trace = {"trace": CANARY, "destination": CANARY, "selector": CANARY, "ended": CANARY, "left_s": 5, "marked": 1}
    link.answers["observations"] = {**trace, "dropped": 1, "observations": steps, "brokers": told_of, "traces": [trace]}
    end = {"target": CANARY, "target_id": CANARY, "location": CANARY, "priority": 4, "text": CANARY}
    answers = [{**end, "taken": True}, {**end, "taken": True, "target_id": ""}, {**end, "taken": False}]
    hop = {"broker": CANARY, "way": [CANARY], "silence": CANARY, "held": CANARY, "forwards": [CANARY]}
    link.answers["trace-dry-run"] = {"hops": [{**hop, "answers": answers, "closed": [end]}], "delivered": False}
    parameters = dict.fromkeys((*BRIDGE_PARAMETERS, CANARY), CANARY)
    link.answers["bridge-parameters"] = {"broker": CANARY, "bridge": CANARY, "parameters": parameters}
    route = RouteStatus(CANARY, RUNNING, CANARY, CANARY, CANARY, last_error=CANARY, failed_at_ms=5)
    status = encode(PipelineStatus(CANARY, CANARY, CANARY, 1_000, 2_000, (route,)))
    row = {"user": CANARY, "run": CANARY, "epoch": 1, "from": 0, "to": 2}
    link.answers["pipelines"] = {
        "pipelines": [{**row, "pipeline": CANARY, "ageMs": 5, "ended": False, "stopping": False, "status": status}],
        "cursors": [
            {**row, "cursor": CANARY, "destination": CANARY, "selector": CANARY, "released": False, "exclusive": True}
        ],
        "sinks": [{**row, "query": CANARY, "batch": 1, "staged": 1}],
    }
    return link


def test_s21_markup_of_clients_is_text_on_every_page() -> None:
    client = TestClient(application(strange_broker(), is_loopback=True), base_url=HOST)
    waiting, seen, shown = ["/admin", "/admin/trace?dry_run=true&name=A"], set[str](), 0
    while waiting and len(seen) < MAX_PAGES:
        path = waiting.pop()
        parts = urlsplit(urljoin(f"{HOST}/admin/", path))
        key = f"{parts.path}?{'&'.join(sorted(pair.partition('=')[0] for pair in parts.query.split('&')))}"
        if key in seen or f"{parts.scheme}://{parts.netloc}" != HOST:
            continue
        seen.add(key)
        answer = client.get(parts._replace(scheme="", netloc="").geturl(), auth=ANNA)
        assert answer.status_code in (200, 400, 404), path
        assert answer.status_code != 404 or "there is no" in answer.text, path
        shown += "&lt;canary" in answer.text
        waiting += Page(answer.text).links
        assert "49{% x %}" not in answer.text
    assert shown > 20
    assert len(seen) < MAX_PAGES
    for path in (
        "/admin/queues",
        "/admin/scheduled",
        "/admin/dead-letters",
        "/admin/messages",
        "/admin/connection",
        "/admin/network-map",
        "/admin/network-lint",
        "/admin/network-connectors",
        "/admin/bridges",
        "/admin/branches",
        "/admin/tasks",
        "/admin/ledger",
        "/admin/pipelines",
        "/admin/why?kind&name",
        "/admin/why?client_id&kind&name",
        "/admin/link",
        "/admin/do/queues/resume",
        "/admin/trace?dry_run",
        "/admin/trace?trace",
        "/admin/do/bridges/create",
        "/admin/bridge?name",
        "/admin/do/bridges/delete",
        "/admin/do/network_connectors/add",
        "/admin/do/network_connectors/remove",
        "/admin/do/links/stop",
        "/admin/do/tasks",
    ):
        assert any(one.startswith(path) for one in seen), path


def test_s21_markup_of_a_query_is_text() -> None:
    client = TestClient(application(FakeBrokerLink(), is_loopback=True), base_url=HOST)
    for path in (
        "/admin/queues?q=", "/admin/queues?sort=", "/admin/queues?did=", "/admin/queue?name=", "/admin/login?next=",
        "/admin/messages?name=queue://A&selector=", "/admin/do/queues/move?name=queue://A&target=", "/admin/send?name=",
        "/admin/do/queues/create?name=", "/admin/do/subscriptions/remove?client_id=", "/admin/",
    ):  # fmt: skip
        Page(client.get(f"{path}{CANARY.replace('%', '%25').replace('&', '%26').replace('/', '%2F')}", auth=ANNA).text)


def test_s21_markup_in_a_refused_form_and_in_the_reason_is_text() -> None:
    link = FakeBrokerLink()
    client = TestClient(application(link, is_loopback=True), base_url=HOST)
    link.refusal = CANARY
    for operation in OFFERED:
        fields = {one.name: "" if one.type in (INTEGER, BOOLEAN) else f"{CANARY}=x" for one in operation.arguments}
        fields |= {"queues_lines": CANARY, "back": f"/admin/queues?q={CANARY}"}
        query = {"name": f"{operation.subject}://A"} if operation.subject else {}
        answer = client.post(
            path_of(operation), params=query, data=fields, auth=ANNA, headers={"Origin": HOST}, follow_redirects=False
        )
        assert answer.status_code in (400, 409), path_of(operation)
        Page(answer.text)
        assert "&lt;canary" in answer.text or answer.status_code == 400, path_of(operation)
