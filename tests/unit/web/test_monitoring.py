"""What monitoring gets over HTTP: metrics and health."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from spanwire.management.histograms import view_of
from spanwire.management.tables.view_table import DESTINATION_ATTRIBUTES, QUEUES
from spanwire.model.observation.histogram import Histogram
from spanwire.web.metrics import exposition
from spanwire.web.routes import application
from tests.support.fake_broker_link import LINK, SUMMARY, FakeBrokerLink, destination

VERA = ("vera", "v-word")
OPEN_METRICS = {"Accept": "application/openmetrics-text; version=1.0.0"}


def client_of(link: FakeBrokerLink) -> TestClient:
    return TestClient(application(link, is_loopback=True), base_url="http://127.0.0.1:8161")


def test_a_scrape_has_figures_of_broker_connectors_links_and_destinations() -> None:
    answer = client_of(FakeBrokerLink()).get("/metrics", auth=VERA, headers=OPEN_METRICS)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    lines = answer.text.splitlines()
    assert 'spanwire_broker_info{id="ID:b",name="orders",version="1"} 1.0' in lines
    assert "spanwire_broker_uptime_seconds 12.5" in lines
    assert 'spanwire_connector_connections{connector="openwire"} 3.0' in lines
    assert 'spanwire_link_up{link="to-billing",remote="billing",uri="tcp://billing:61616"} 1.0' in lines
    assert 'spanwire_destination_pending_messages{destination="A",type="queue"} 3.0' in lines
    assert 'spanwire_destination_enqueued_messages_total{destination="A",type="queue"} 10.0' in lines
    assert 'spanwire_broker_enqueued_messages_total{type="topic"} 4.0' in lines
    assert 'spanwire_health_level{check="memory"} 0.0' in lines
    assert lines[-1] == "# EOF"


def test_an_expired_certificate_is_shown_and_takes_no_broker_out_of_service() -> None:
    link = FakeBrokerLink()
    connector = {"name": "tls", "uri": "ssl://127.0.0.1:1", "certificate_expires_s": 1_000}
    link.answers["summary"] = {**SUMMARY, "connectors": [connector], "time_ms": 2_000_000_000}
    client = client_of(link)
    answer = client.get("/health/ready")
    assert (answer.status_code, answer.json()["checks"]["certificates"]) == (200, [{"status": "fail"}])
    text = client.get("/metrics", auth=VERA).text
    assert 'spanwire_connector_certificate_expires_seconds{connector="tls"} 1000.0' in text
    assert 'spanwire_health_level{check="certificates"} 2.0' in text


def test_a_tool_that_asks_for_text_gets_prometheus_text() -> None:
    answer = client_of(FakeBrokerLink()).get("/metrics", auth=VERA, headers={"Accept": "text/plain"})
    assert answer.headers["content-type"].startswith("text/plain")
    assert "# TYPE spanwire_destination_enqueued_messages_total counter" in answer.text


def series(text: str, name: str) -> int:
    return sum(line.startswith(f"{name}{{") for line in text.splitlines())


def test_a_scrape_has_the_histograms_of_journal_and_loop() -> None:
    link = FakeBrokerLink()
    view = view_of(Histogram())
    counts = view["counts"]
    assert isinstance(counts, list)
    counts[4] = 3
    link.answers["summary"] = {**SUMMARY, "histograms": {"journal_sync": {**view, "sum": 0.005}, "loop_lag": view}}
    text = client_of(link).get("/metrics", auth=VERA).text
    assert 'spanwire_journal_sync_seconds_bucket{le="0.001"} 0.0' in text
    assert 'spanwire_journal_sync_seconds_bucket{le="0.002"} 3.0' in text
    assert "spanwire_journal_sync_seconds_count 3.0" in text
    assert "spanwire_journal_sync_seconds_sum 0.005" in text
    assert 'spanwire_loop_lag_seconds_bucket{le="+Inf"}' in text
    assert "loop_turn" not in text


def test_the_busiest_destinations_have_series_and_sums_cover_all() -> None:
    link = FakeBrokerLink()
    link.answers["destinations"] = [destination(f"queue://Q.{number}", 0, number) for number in range(250)]
    client = client_of(link)
    text = client.get("/metrics", auth=VERA, headers=OPEN_METRICS).text
    name = "spanwire_destination_enqueued_messages_total"
    assert series(text, name) == 100
    assert 'destination="Q.249"' in text
    assert 'destination="Q.149"' not in text
    assert f'spanwire_broker_enqueued_messages_total{{type="queue"}} {sum(range(250))}.0' in text
    assert series(client.get("/metrics?destinations=all", auth=VERA).text, name) == 250
    assert series(client.get("/metrics?destinations=7", auth=VERA).text, name) == 7


def test_a_scrape_may_name_the_figures_of_destinations_that_it_is_for() -> None:
    link = FakeBrokerLink()
    link.answers["destinations"] = [destination("queue://A", 1, 7)]
    client = client_of(link)
    text = client.get("/metrics?series=pending,enqueued", auth=VERA).text
    shown = {line.partition("{")[0] for line in text.splitlines() if line.startswith("spanwire_destination_")}
    assert shown == {"spanwire_destination_pending_messages", "spanwire_destination_enqueued_messages_total"}
    assert "spanwire_broker_dequeued_messages_total" in text
    for unknown in ("", "pending,", "name", "pending,x"):
        answer = client.get("/metrics", params={"series": unknown}, auth=VERA)
        assert (answer.status_code, "memory_bytes" in answer.json()["detail"]) == (400, True)


def test_advisory_topics_are_counted_by_themselves() -> None:
    rows = [destination("topic://ActiveMQ.Advisory.Connection", 0, 9), destination("topic://T", 0, 1)]
    text = exposition(SUMMARY, rows, OPEN_METRICS["Accept"])[0].decode()
    assert 'spanwire_broker_enqueued_messages_total{type="advisory"} 9.0' in text
    assert 'destination="ActiveMQ' not in text


@pytest.mark.parametrize("asked", ["-1", "x", "", "1e9", "99999999999999999999", "\u0663"])
def test_a_wrong_number_of_destinations_is_refused(asked: str) -> None:
    answer = client_of(FakeBrokerLink()).get("/metrics", params={"destinations": asked}, auth=VERA)
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("name", ['a"b', "a\nb 1", "a\\", "\ud800", "a{b}", "é" * 300, ""])
def test_any_name_of_a_queue_stays_one_label_of_one_line(name: str) -> None:
    rows = [destination(f"queue://{name}", 1, 1)]
    text = exposition(SUMMARY, rows, OPEN_METRICS["Accept"])[0].decode()
    assert series(text, "spanwire_destination_pending_messages") == 1
    assert all(line.startswith(("spanwire_", "#")) for line in text.splitlines())


def test_two_links_with_equal_labels_are_one_series() -> None:
    link = LINK
    text = exposition({**SUMMARY, "network_connectors": [link, link]}, [], "")[0].decode()
    assert series(text, "spanwire_link_up") == 1


def test_every_metric_of_a_destination_is_there() -> None:
    text = exposition(SUMMARY, [destination("queue://A", 1, 1)], "")[0].decode()
    for attribute in DESTINATION_ATTRIBUTES:
        if attribute.metric:
            assert f"# HELP {QUEUES.metric_name(attribute)}" in text


def test_pages_and_scrapes_of_one_second_cost_the_broker_one_request() -> None:
    link = FakeBrokerLink()
    client = client_of(link)
    assert {client.get("/metrics", auth=VERA).status_code for _ in range(20)} == {200}
    assert (link.count("login"), link.count("summary"), link.count("changes")) == (1, 1, 1)


def test_a_broker_that_has_started_again_is_logged_in_to_again() -> None:
    link = FakeBrokerLink()
    time = [0.0]
    served = application(link, is_loopback=True, now=lambda: time[0])
    client = TestClient(served, base_url="http://127.0.0.1:8161")
    assert client.get("/metrics", auth=VERA).status_code == 200
    link.forget_handles()
    time[0] = 1.0
    assert client.get("/metrics", auth=VERA).status_code == 200
    assert (link.count("login"), link.count("summary")) == (2, 2)


def test_the_broker_is_alive_while_it_answers() -> None:
    link = FakeBrokerLink()
    client = client_of(link)
    assert client.get("/health/live").json() == {"status": "pass", "checks": {"broker": [{"status": "pass"}]}}
    gone = FakeBrokerLink()
    gone.is_there = False
    answer = client_of(gone).get("/health/live")
    assert (answer.status_code, answer.json()["status"]) == (503, "fail")


def test_the_broker_is_ready_while_no_check_is_critical() -> None:
    link = FakeBrokerLink()
    answer = client_of(link).get("/health/ready")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/health+json")
    assert answer.json()["status"] == "pass"
    usage = SUMMARY["usage"]
    assert isinstance(usage, dict)
    link.answers["summary"] = {**SUMMARY, "usage": {**usage, "disk_full": True}}
    answer = client_of(link).get("/health/ready")
    assert (answer.status_code, answer.json()["checks"]["disk"]) == (503, [{"status": "fail"}])


def test_health_names_checks_and_no_details_to_everybody() -> None:
    text = client_of(FakeBrokerLink()).get("/health/ready").text
    assert "billing" not in text
    assert "61616" not in text


def test_without_a_broker_every_route_says_so() -> None:
    link = FakeBrokerLink()
    link.is_there = False
    answer = client_of(link).get("/metrics", auth=VERA)
    assert (answer.status_code, answer.json()["detail"]) == (503, "no broker runs")
