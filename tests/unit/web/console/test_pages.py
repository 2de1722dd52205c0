"""Pages of the console: login, overview, queues, one queue; headers, escapes and empty states."""

from __future__ import annotations

import re

import pytest
from starlette.testclient import TestClient

from spanwire.web.console.assets import NAMES, asset, contents
from spanwire.web.console.formats import whole_addresses
from spanwire.web.console.pages.list_pages import style_of
from spanwire.web.console.rendering import environment
from spanwire.web.routes import application
from tests.support.fake_broker_link import FakeBrokerLink, destination

HOST = "http://127.0.0.1:8161"
OWN = {"Origin": HOST}
SESSION = "spanwire-session-8161"


def client_of(link: FakeBrokerLink) -> TestClient:
    return TestClient(application(link, is_loopback=True), base_url=HOST, follow_redirects=False)


def logged_in(link: FakeBrokerLink, user: str = "vera") -> TestClient:
    client = client_of(link)
    answer = client.post("/admin/login", data={"user": user, "password": f"{user[0]}-word"}, headers=OWN)
    assert (answer.status_code, answer.headers["location"]) == (303, "/admin")
    return client


def test_a_stranger_is_led_to_the_login_and_back() -> None:
    client = client_of(FakeBrokerLink())
    assert client.get("/").headers["location"] == "/admin"
    answer = client.get("/admin/queues?sort=-pending&q=A")
    assert (answer.status_code, answer.headers["location"]) == (
        303, "/admin/login?next=%2Fadmin%2Fqueues%3Fsort%3D-pending%26q%3DA",
    )  # fmt: skip
    form = client.get(answer.headers["location"])
    assert "www-authenticate" not in form.headers
    assert 'name="next" value="/admin/queues?sort=-pending&amp;q=A"' in form.text
    data = {"user": "vera", "password": "v-word", "next": "/admin/queues?sort=-pending&q=A"}
    answer = client.post("/admin/login", data=data, headers=OWN)
    assert answer.headers["location"] == "/admin/queues?sort=-pending&q=A"
    assert client.get(answer.headers["location"]).status_code == 200


@pytest.mark.parametrize(
    "target",
    ["//evil.example", "https://evil.example/admin", "/admin\\@evil", "/adminx", "/admin/\r\nX: y", "/api/v1/queues"],
)
def test_s23_a_login_leads_to_pages_of_the_console_alone(target: str) -> None:
    data = {"user": "vera", "password": "v-word", "next": target}
    assert client_of(FakeBrokerLink()).post("/admin/login", data=data, headers=OWN).headers["location"] == "/admin"


def test_wrong_credentials_are_told_on_the_form() -> None:
    client = client_of(FakeBrokerLink())
    for user, password in (("vera", "wrong"), ("nobody", "v-word"), ("a:b", "c")):
        answer = client.post("/admin/login", data={"user": user, "password": password}, headers=OWN)
        assert answer.status_code in (400, 401)
        assert "set-cookie" not in answer.headers
        assert 'role="alert"' in answer.text


@pytest.mark.parametrize(
    "headers", [{}, {"Sec-Fetch-Site": "none"}, {"Origin": "null"}, {"Origin": "http://evil.example"}]
)
@pytest.mark.parametrize("path", ["/admin/login", "/admin/logout"])
def test_s23_a_form_without_a_proof_of_its_origin_is_refused(path: str, headers: dict[str, str]) -> None:
    client = logged_in(FakeBrokerLink())
    answer = client.post(path, data={"user": "anna", "password": "a-word"}, headers=headers)
    assert (answer.status_code, "set-cookie" in answer.headers) == (403, False)
    assert ">vera <" in client.get("/admin").text


def test_a_log_out_ends_the_session() -> None:
    client = logged_in(FakeBrokerLink())
    token = client.cookies[SESSION]
    answer = client.post("/admin/logout", data={"x": ""}, headers=OWN)
    assert (answer.status_code, answer.headers["location"]) == (303, "/admin/login")
    assert client.get("/admin", headers={"Cookie": f"{SESSION}={token}"}).status_code == 303


def test_a_second_login_ends_the_session_before() -> None:
    client = logged_in(FakeBrokerLink())
    token = client.cookies[SESSION]
    client.post("/admin/login", data={"user": "otto", "password": "o-word"}, headers=OWN)
    assert ">otto <" in client.get("/admin").text
    assert client_of(FakeBrokerLink()).get("/admin", headers={"Cookie": f"{SESSION}={token}"}).status_code == 303


def test_a_broker_without_users_is_shown_to_everybody() -> None:
    page = client_of(FakeBrokerLink(is_open=True)).get("/admin")
    assert page.status_code == 200
    assert "This broker has no users" in page.text


def test_the_overview_has_facts_figures_and_the_longest_queues() -> None:
    link = FakeBrokerLink()
    link.answers["destinations"] = [destination("queue://A", 3, 10_000), destination("queue://B", 1_234_567, 2_000_000)]
    text = logged_in(link).get("/admin").text
    for part in (
        "<h1>orders</h1>",
        "1,234,570",
        "2,010,000 in all",
        "no rate yet",
        "tcp://127.0.0.1:61616",
        "to-billing",
    ):
        assert part in text, part
    assert text.index(">B</a>") < text.index(">A</a>")


def test_the_first_page_with_all_its_files_is_below_150_kib_beside_10_000_queues() -> None:
    link = FakeBrokerLink()
    link.answers["destinations"] = [destination(f"queue://shop.{number}.orders", number, 9) for number in range(10_000)]
    page = logged_in(link).get("/admin", headers={"Accept-Encoding": "identity"})
    assert len(page.content) > 5_000
    assert len(page.content) + sum(map(len, contents().values())) < 150 * 1024


def test_strange_content_is_refused_by_headers() -> None:
    headers = logged_in(FakeBrokerLink()).get("/admin").headers
    policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["form-action"] == "'self'"
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["referrer-policy"] == "same-origin"
    assert headers["x-frame-options"] == "DENY"
    assert headers["cache-control"] == "no-store"


def test_files_are_kept_by_browsers_under_the_path_of_their_digest_alone() -> None:
    client = client_of(FakeBrokerLink())
    for name in NAMES:
        answer = client.get(asset(name))
        assert (answer.status_code, "immutable" in answer.headers["cache-control"]) == (200, True)
        assert client.get(f"/admin/assets/old/{name}").headers["cache-control"] == "no-store"
    assert client.get(asset("console.js").replace("console.js", "base.html")).status_code == 404
    assert client.get(asset("times.js")).headers["content-type"].startswith("text/javascript")


def names(text: str) -> list[str]:
    return re.findall(r'<th scope="row"[^>]*><a [^>]*>([^<]*)</a>', text)


def test_the_list_of_queues_searches_filters_orders_and_pages() -> None:
    link = FakeBrokerLink()
    link.answers["destinations"] = [destination(f"queue://Q.{number:03}", number, 500) for number in range(250)]
    client = logged_in(link)
    assert names(client.get("/admin/queues").text)[:2] == ["Q.000", "Q.001"]
    assert names(client.get("/admin/queues?sort=-pending&page=3&size=50").text)[0] == "Q.149"
    found = ["Q.024", "Q.124", "Q.224", *(f"Q.24{digit}" for digit in range(10))]
    assert names(client.get("/admin/queues?q=24").text) == found
    assert names(client.get("/admin/queues?pending=%3E247").text) == ["Q.248", "Q.249"]
    assert names(client.get("/admin/queues?pending=%3E247&q=249&paused=").text) == ["Q.249"]
    text = client.get("/admin/queues?sort=-pending&size=50").text
    assert 'aria-sort="descending"' in text
    assert 'href="/admin/queues?sort=-pending&amp;size=50&amp;page=2" rel="next"' in text
    assert client.get("/admin/queues?pendin=3").status_code == 400
    assert "did you mean pending" in client.get("/admin/queues?pendin=3").text


def test_an_empty_list_says_what_to_do_next() -> None:
    link = FakeBrokerLink()
    client = logged_in(link)
    link.answers["destinations"] = []
    assert "A queue comes into being" in client.get("/admin/queues").text
    other = FakeBrokerLink()
    assert "The only row does not fit the search." in logged_in(other).get("/admin/queues?q=nothing").text
    assert "Show the first one" in logged_in(FakeBrokerLink()).get("/admin/queues?page=9").text


@pytest.mark.parametrize("name", ["A", "A/B", "..", "Ä ö", "a?b#c&d", "\udc80", "%2e"])
def test_a_queue_of_any_name_has_a_permanent_link(name: str) -> None:
    link = FakeBrokerLink()
    link.answers["destinations"] = [destination(f"queue://{name}", 3)]
    client = logged_in(link)
    target = re.search(r'<th scope="row"[^>]*><a href="([^"]*)"', client.get("/admin/queues").text)
    assert target is not None
    page = client.get(target[1].replace("&amp;", "&"))
    assert (page.status_code, "<dt>Pending</dt><dd>3 <" in page.text) == (200, True)


def test_the_page_of_a_queue_says_why_nothing_moves() -> None:
    link = FakeBrokerLink()
    link.answers["destinations"] = [
        {**destination("queue://P", 3), "paused": True}, {**destination("queue://N", 4), "consumers": 0},
        {**destination("queue://O", 1), "consumers": 0},
    ]  # fmt: skip
    client = logged_in(link)
    assert "The dispatch is paused" in client.get("/admin/queue?name=queue://P").text
    assert "4 messages wait, and the queue has no consumer" in client.get("/admin/queue?name=queue://N").text
    assert "1 message waits, and the queue has no consumer" in client.get("/admin/queue?name=queue://O").text
    missing = client.get("/admin/queue?name=queue://M")
    assert (missing.status_code, "there is no queue://M" in missing.text) == (404, True)
    assert missing.headers["content-type"].startswith("text/html")


LINK = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


def test_a_link_on_another_site_opens_the_page_again_with_the_session() -> None:
    client = client_of(FakeBrokerLink())
    again = client.get("/admin/queues?q=A", headers=LINK)
    assert (again.status_code, '<meta http-equiv="refresh" content="0">' in again.text) == (200, True)
    assert client.get("/admin/queues?q=A", headers={"Sec-Fetch-Site": "same-origin"}).status_code == 303


@pytest.mark.parametrize(
    ("method", "path", "changed"),
    [
        ("POST", "/admin/login", {}),
        ("POST", "/admin/do/queues/pause?name=queue://A", {}),
        ("GET", "/admin", {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}),
        ("GET", "/admin", {"Sec-Fetch-Dest": "iframe"}),
        ("GET", "/admin", {"Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}),
        ("GET", "/api/v1/queues", {}),
        ("GET", "/metrics", {}),
        ("GET", "/administrator", {}),
    ],
)
def test_s23_nothing_but_a_link_to_a_page_comes_from_another_site(
    method: str, path: str, changed: dict[str, str]
) -> None:
    link = FakeBrokerLink()
    answer = client_of(link).request(method, path, headers={**LINK, **changed}, auth=("anna", "a-word"))
    assert (answer.status_code, link.asked) == (403, [])


def test_an_error_leads_back_to_the_page_before() -> None:
    client = logged_in(FakeBrokerLink(), "otto")
    path = "/admin/queue?name=queue://M"
    page = client.get(path, headers={"Referer": f"{HOST}/admin/queues?q=M"}).text
    assert '<a href="/admin/queues?q=M">Back</a>' in page
    for strange in ("http://[", "javascript:alert(1)", "//evil.example/admin"):
        assert '<a href="/admin">Back</a>' in client.get(path, headers={"Referer": strange}).text


def test_an_error_keeps_the_navigation_of_the_user() -> None:
    page = logged_in(FakeBrokerLink(), "otto").get("/admin/queue?name=queue://M")
    assert (page.status_code, '<a href="/admin/topics">Topics</a>' in page.text) == (404, True)
    stranger = client_of(FakeBrokerLink()).get("/admin/queue?name=queue://M", auth=("otto", "wrong"))
    assert '<a href="/admin/topics">' not in stranger.text


def test_rows_of_queues_lead_to_their_messages_and_forms() -> None:
    link = FakeBrokerLink()
    link.answers["destinations"] = [destination("queue://A&B"), destination("temp-queue://T")]
    text = logged_in(link, "otto").get("/admin/queues").text
    for target in ("messages?name=queue%3A%2F%2FA%26B", "send?name=queue%3A%2F%2FA%26B"):
        assert text.count('<td class="actions"') == 2 and f'href="/admin/{target}"' in text
    assert 'href="/admin/do/queues/purge?name=queue%3A%2F%2FA%26B&amp;back=%2Fadmin%2Fqueues"' in text
    assert text.count("name=temp-queue%3A%2F%2FT") == 1  # the page of the queue
    viewer = logged_in(link).get("/admin/queues").text
    assert "Browse</a>" in viewer and "Purge</a>" not in viewer


@pytest.mark.parametrize(
    ("text", "style"),
    [("tcp://127.0.0.1:61616", "word"), ("connection refused", "short"), ("x" * 40, "wide"), ("", "word")],
)
def test_addresses_stay_on_one_line_and_long_texts_get_room(text: str, style: str) -> None:
    assert style_of(text) == style


def test_a_long_text_breaks_beside_its_addresses_and_is_escaped() -> None:
    text = f"queue://A at tcp://h:1 {'x' * 9}://{'<b>' * 9} <i>"
    whole = '<span class="word">{}</span>'.format
    assert whole_addresses(text) == (
        f"{whole('queue://A')} at {whole('tcp://h:1')} {'x' * 9}://{'&lt;b&gt;' * 9} &lt;i&gt;"
    )


@pytest.mark.parametrize("view", ["consumers", "producers"])
def test_clients_lead_to_their_destination_and_connection(view: str) -> None:
    link = FakeBrokerLink()
    names = ("queue://A", "topic://T", "temp-queue://ID:1", "queue://A,queue://B", "queue://A.>")
    row = {
        "connection_id": "ID:c", "client_id": "shop", "remote_address": "tcp://127.0.0.1:5", "session": 1,
        "prefetch_size": 1, "in_flight": 0, "dequeued": 0, "selector": None, "slow": False, "user_name": "u",
        "waiting_sends": 0,
    }  # fmt: skip
    link.answers[view] = [
        {**row, f"{view[:-1]}_id": f"c{number}", "destination": name} for number, name in enumerate(names)
    ]
    link.answers["connections"] = [{"connection_id": "ID:c", "client_id": "shop", "slow": False, "blocked": False}]
    client = logged_in(link)
    text = client.get(f"/admin/{view}").text
    targets = [
        "/admin/queue?name=queue%3A%2F%2FA", "/admin/topic?name=topic%3A%2F%2FT",
        "/admin/queue?name=temp-queue%3A%2F%2FID%3A1",
    ]  # fmt: skip
    assert sorted(re.findall(r'href="(/admin/(?:queue|topic)\?[^"]*)"', text)) == sorted(targets)
    assert ">queue://A</a>" in text  # whether it is a queue or topic is not clear from the page
    assert text.count('<a href="/admin/connection?name=ID%3Ac">') == len(names)
    assert set(targets) <= set(re.findall(r'href="([^"]*)"', client.get("/admin/connection?name=shop").text))
    assert '<a href="/admin/connection?name=ID%3Ac">shop</a>' in client.get("/admin/queue?name=queue://A").text


def test_a_selector_of_stomp_is_shown_without_its_mark() -> None:
    link = FakeBrokerLink()
    link.answers["consumers"] = [{"consumer_id": "c", "selector": "convert_string_expressions:n > 5"}]
    text = logged_in(link).get("/admin/consumers").text
    assert ">n &gt; 5</td>" in text and "convert_string" not in text


def test_templates_stay_those_of_the_running_code() -> None:
    assert environment().auto_reload is False  # an upgrade replaces the files below a process that runs


def test_a_broker_that_does_not_answer_is_told_on_a_page() -> None:
    link = FakeBrokerLink()
    client = logged_in(link)
    link.is_there = False
    page = client.get("/admin")
    assert (page.status_code, "the broker does not answer" in page.text) == (503, True)
    unknown = client.get("/admin/nothing")
    assert (unknown.status_code, unknown.headers["content-type"]) == (404, "text/html; charset=utf-8")


@pytest.mark.parametrize(
    ("content", "content_type", "status"),
    [
        ("&".join("a=b" for _ in range(1_001)), "application/x-www-form-urlencoded", 400),
        ("user=%ff", "application/x-www-form-urlencoded", 400),
        ('{"user": "vera"}', "application/json", 415),
        ("user=vera", "text/plain", 415),
    ],
)
def test_s24_a_form_with_too_many_fields_is_refused(content: str, content_type: str, status: int) -> None:
    client = client_of(FakeBrokerLink())
    answer = client.post("/admin/login", content=content, headers={**OWN, "Content-Type": content_type})
    assert answer.status_code == status
