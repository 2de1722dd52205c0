from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from uuid import UUID

import pytest

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.routes.route_watching import route_job
from spanwire.pipeline.watch.board import StatusBoard
from spanwire.pipeline.watch.lineage import (
    MAX_WAITING,
    Dataset,
    Job,
    LineageSender,
    batch_event,
    http_post,
    sending_lineage,
)
from spanwire.pipeline.watch.route_watch import RouteWatch
from spanwire.routes.readers.parsing import read_routes
from spanwire.routes.readers.placeholders import Placeholders

RUN = UUID(int=1)
QUERY = str(UUID(int=2))
JOB = Job("prod", "routes.yaml", "orders", RUN, (Dataset("tcp://a:61616", "queue://ORDERS"),), (Dataset("file", "/d"),))


def batch(number: int, rows: int = 5) -> dict[str, object]:
    return {"id": QUERY, "batchId": number, "numInputRows": rows}


def test_a_batch_is_a_run_with_its_data_sets_and_its_parent() -> None:
    event = batch_event(JOB, batch(3), 1_000)
    assert event is not None
    assert (event["eventType"], event["eventTime"]) == ("COMPLETE", "1970-01-01T00:00:01.000+00:00")
    assert event["job"] == {"namespace": "prod", "name": "routes.yaml.orders"}
    text = json.dumps(event)
    assert '"runId": "00000000-0000-0000-0000-000000000001"' in text and '"rowCount": 5' in text
    assert '"namespace": "tcp://a:61616", "name": "queue://ORDERS"' in text
    assert event["outputs"] == [{"namespace": "file", "name": "/d"}]
    assert set(event) == {"eventType", "eventTime", "producer", "schemaURL", "job", "run", "inputs", "outputs"}


def run_id(event: dict[str, object] | None) -> object:
    assert event is not None and isinstance(event["run"], dict)
    return event["run"]["runId"]


def test_a_repeated_batch_has_the_same_id_and_another_batch_or_query_another() -> None:
    later = Job(JOB.namespace, JOB.pipeline, JOB.route, UUID(int=9), JOB.inputs, JOB.outputs)
    same = {run_id(batch_event(JOB, batch(3), 1)), run_id(batch_event(later, batch(3), 2))}
    others = {run_id(batch_event(JOB, batch(4), 1)), run_id(batch_event(JOB, {**batch(3), "id": "x"}, 1))}
    assert len(same) == 1 and len(others) == 2 and not same & others
    assert all(str(UUID(str(one))) == one for one in same | others)


def test_an_empty_poll_is_no_event() -> None:
    assert batch_event(JOB, batch(3, 0), 1) is None


class Collected(LineageSender):
    def __init__(self) -> None:
        super().__init__(lambda _: None)
        self.events: list[object] = []

    def send(self, event: object) -> None:
        self.events.append(event)


def test_a_route_sends_one_event_for_each_batch() -> None:
    sender = Collected()
    watch = RouteWatch(StatusBoard("p", "r", "h", 0), "orders", lambda: 1, sender, JOB)
    for progress in (batch(0), batch(0), batch(1, 0), batch(1), batch(0)):
        watch.on_progress(progress)
    assert len(sender.events) == 2


def test_events_are_dropped_when_the_receiver_is_slow_or_away(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: bytes) -> None:
        raise ConnectionRefusedError("away")

    sender = LineageSender(fail)
    for number in range(MAX_WAITING + 3):
        sender.send({"n": number})
    assert sender.dropped == 3
    runner = threading.Thread(target=sender.run)
    runner.start()
    sender.end()
    runner.join(10.0)
    assert not runner.is_alive() and sender.dropped == MAX_WAITING + 3
    assert caplog.text.count("an OpenLineage event was not sent") == 1


@contextmanager
def receiver() -> Iterator[tuple[str, list[tuple[str, str | None, object]]]]:
    """A server that keeps path, authorization and content of each request."""
    taken: list[tuple[str, str | None, object]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            taken.append((self.path, self.headers["Authorization"], json.loads(content)))
            self.send_response(201)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", taken
        finally:
            server.shutdown()
            thread.join()


def test_events_go_to_the_receiver_of_the_variables() -> None:
    with receiver() as (url, taken):
        with sending_lineage({"OPENLINEAGE_URL": url + "/", "OPENLINEAGE_API_KEY": "k"}) as sender:
            assert sender is not None
            sender.send({"n": 1})
            sender.send({"n": 2})
        assert taken == [("/api/v1/lineage", "Bearer k", {"n": number}) for number in (1, 2)]


def test_without_a_receiver_there_are_no_events() -> None:
    with sending_lineage({}) as sender:
        assert sender is None
    with pytest.raises(ConfigurationError, match="OPENLINEAGE_URL is no address of http: or https:"):
        http_post({"OPENLINEAGE_URL": "file:///etc/passwd"})


def test_data_sets_of_a_route_have_no_secrets() -> None:
    route_file = read_routes(
        b'[{brokers: {shop: {url: "tcp://a:1?jms.password=x", user: u, password: p}}},'
        b' {route: {id: r, from: {uri: "shop:queue:A", steps: [{to: "shop:queue:B"}, {to: "parquet:/data"}]}}}]',
        "dir/routes.yaml",
        Placeholders({}, {}),
    )
    job = route_job(route_file, route_file.routes[0], RUN)
    assert (job.pipeline, job.route, job.inputs) == ("routes.yaml", "r", (Dataset("tcp://a:1", "queue://A"),))
    assert job.outputs == (Dataset("tcp://a:1", "queue://B"), Dataset("file", "/data"))
