"""Bridges that operators create: kept over a restart and a crash until they are deleted; secrets are not kept."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Final

import pytest

from spanwire.bridges.model.route_definition import Definition
from spanwire.broker.metadata import BRIDGES
from spanwire.model.errors import ConfigurationError
from spanwire.service.administration import added_bridges
from spanwire.service.administration.added_bridges import MAX_DEFINITION_BYTES, AddedBridges
from tests.support.dialogue.broker_dialogue import Stage

Rows = list[dict[str, object]]

TOML: Final = """\
[connectionFactories.far]
url = "tcp://far:61616"
userName = "u"
password = "{password}"
[bridges.{name}]
sourceConnectionFactory = "far"
sourceDestination = "queue://A"
targetConnectionFactory = "tcp://near:61616"
targetDestination = "queue://{target}"
"""
VARIABLE: Final = "{{{{env:SPANWIRE_BRIDGE_PASSWORD}}}}"
ENVIRONMENT: Final = {"SPANWIRE_BRIDGE_PASSWORD": "canary", "OTHER": "secret"}


class Process:
    """The process of the bridges: the names and targets that would run, beside one of the configuration."""

    def __init__(self) -> None:
        self.running: Final[dict[str, Definition]] = {}
        self.obstacle: str | None = None
        self.soon: list[str] = []  # names taken once these were looked at

    def names(self) -> list[str]:
        names = ["configured", *self.running]
        for name in self.soon:
            self.running[name] = self.running["other"]
        self.soon = []
        return names

    def take(self, definition: Definition) -> dict[str, object]:
        if self.obstacle is not None:
            raise ConfigurationError(self.obstacle)
        self.running[definition.name] = definition
        return {"name": definition.name}

    async def give_up(self, names: Sequence[str]) -> Rows:
        for name in names:
            del self.running[name]
        return [{"name": name, "state": "running"} for name in names]


class Run:
    """One run of a broker, from its start to its end."""

    def __init__(self, stage: Stage | None = None, environment: Mapping[str, str] = ENVIRONMENT) -> None:
        self.stage = Stage() if stage is None else stage
        self.process = Process()
        self.bridges = AddedBridges(self.stage.broker, self.process, "b", environment, lambda: None)
        asyncio.run(self.bridges.recover())

    def does(self, command: Coroutine[Any, Any, Rows]) -> Rows:
        """The answer to a command, while the disk takes what it writes."""

        async def scene() -> Rows:
            task = asyncio.ensure_future(command)
            while not task.done():
                await asyncio.sleep(0)
                self.stage.settle()
            return await task

        return asyncio.run(scene())

    def creates(self, text: str, **words: object) -> str:
        """The note of the answer."""
        return str(self.does(self.bridges.create({"definition": text, **words}))[0]["note"])

    def refuses(self, text: str, **words: object) -> str:
        with pytest.raises(ConfigurationError) as refused:
            self.creates(text, **words)
        return str(refused.value)

    def deletes(self, *names: str) -> Rows:
        return self.does(self.bridges.delete({"bridges": list(names)}))

    def restarts(self, environment: Mapping[str, str] = ENVIRONMENT) -> Run:
        return Run(self.stage.restarts(), environment)

    def target(self, name: str) -> str:
        definition = self.process.running[name]
        return definition.target.destination.name  # type: ignore[union-attr]


def toml(name: str = "shovel", password: str = VARIABLE, target: str = "B") -> str:
    return TOML.format(name=name, password=password.replace("{{{{", "{{").replace("}}}}", "}}"), target=target)


def test_a_created_bridge_is_there_after_restarts_until_it_is_deleted() -> None:
    run = Run()
    assert run.creates(toml()) == ""
    run = run.restarts().restarts()
    assert list(run.process.running) == ["shovel"]
    assert run.deletes("shovel") == [{"name": "shovel", "state": "running"}]
    assert not run.process.running
    assert not run.restarts().process.running


def test_a_created_bridge_is_replaced_only_on_request_and_stays_replaced() -> None:
    run = Run()
    run.creates(toml())
    assert "there is a bridge or route 'shovel' already, which was created; replace it" in run.refuses(toml(target="C"))
    assert run.target("shovel") == "B"
    run.creates(toml(target="C"), replace=True)
    assert run.target("shovel") == "C"
    assert run.restarts().target("shovel") == "C"


def test_a_name_of_the_configuration_is_taken_and_its_bridge_is_not_deleted() -> None:
    run = Run()
    for words in ({}, {"replace": True}):
        assert "there is a bridge or route 'configured' already" in run.refuses(toml("configured"), **words)
    with pytest.raises(ConfigurationError, match=r"configured is of the configuration or of a deployed file"):
        run.deletes("configured")
    with pytest.raises(ConfigurationError, match=r"unknown bridge x; created are none"):
        run.deletes("x")


def test_a_password_in_clear_is_never_kept(caplog: pytest.LogCaptureFixture) -> None:
    run = Run()
    note = run.creates(toml(password="canary"))
    assert note.startswith("lasts until the next start only: its password is not kept in clear: write {{env:SPANWIRE")
    assert list(run.process.running) == ["shovel"]
    assert run.stage.store.metadata.get(BRIDGES, {}) == {}
    assert "canary" not in caplog.text
    in_url = toml().replace("tcp://far:61616", "tcp://far:61616?jms.password=x")
    assert "its password in the URL is not kept" in run.creates(in_url, replace=True)
    assert not run.restarts().process.running


@pytest.mark.parametrize(
    "text",
    [
        toml(password="{{env:SPANWIRE_BRIDGE_PASSWORD:geheim1}}"),
        toml(password="{{env:SPANWIRE_BRIDGE_GONE:geheim1}}"),
        toml().replace('"tcp://near:61616"', '"near"')
        + '[connectionFactories.near]\nurl = "tcp://near:61616"\npassword = "canary"\n',
        toml() + '[connectionFactories.unused]\nurl = "tcp://near:61616"\npassword = "geheim1"\n',
        toml() + '[connectionFactories.unused]\nurl = "tcp://near:61616?jms.password=geheim1"\n',
        toml() + "# canary\n",
    ],
    ids=["default", "default in use", "twice", "of no bridge", "in a URL of no bridge", "in a comment"],
)
def test_a_password_that_stands_anywhere_in_the_definition_is_not_kept(text: str) -> None:
    run = Run()
    assert "is not kept in clear" in run.creates(text)
    assert run.stage.store.metadata.get(BRIDGES, {}) == {}


def test_no_error_shows_the_value_of_a_variable(caplog: pytest.LogCaptureFixture) -> None:
    text = toml() + 'maxBatchSize = "{{env:SPANWIRE_BRIDGE_SIZE}}"\n'
    for value in ("geheim", "geheim" * 40, "gehe\nim'\"1"):
        run = Run(environment={**ENVIRONMENT, "SPANWIRE_BRIDGE_SIZE": value})
        fault = run.refuses(text)
        assert "maxBatchSize" in fault
        assert "gehe" not in fault
    run = Run(environment={**ENVIRONMENT, "SPANWIRE_BRIDGE_SIZE": "5"})
    assert run.creates(text) == ""
    run.restarts({**ENVIRONMENT, "SPANWIRE_BRIDGE_SIZE": "geheim"})
    assert "bridge shovel, which an operator created, is not started" in caplog.text
    assert "geheim" not in caplog.text


def test_a_name_that_is_taken_while_a_definition_is_read_is_not_taken_twice() -> None:
    run = Run()
    run.creates(toml("other"))
    run.process.soon = ["shovel"]
    assert "there is a bridge or route 'shovel' already" in run.refuses(toml())
    assert b"shovel" not in run.stage.store.metadata[BRIDGES]


def test_the_value_of_a_variable_is_read_anew_at_each_start_and_never_kept() -> None:
    run = Run()
    run.creates(toml())
    (value,) = run.stage.store.metadata[BRIDGES].values()
    assert b"canary" not in value
    run = run.restarts({"SPANWIRE_BRIDGE_PASSWORD": "new"})
    password = run.process.running["shovel"].source.factory.password  # type: ignore[union-attr]
    assert password is not None
    assert password.reveal() == "new"


def test_a_replacement_with_a_password_in_clear_is_forgotten_as_a_whole() -> None:
    run = Run()
    run.creates(toml())
    run.creates(toml(password="canary"), replace=True)
    assert not run.restarts().process.running


def test_no_other_variable_of_the_broker_is_within_reach() -> None:
    fault = Run().refuses(toml(password="{{env:OTHER}}"))
    assert (
        "{{env:OTHER}} has no value: the broker was started without it; only variables with SPANWIRE_BRIDGE_" in fault
    )
    assert "secret" not in fault


def test_a_bridge_whose_variable_is_gone_is_a_warning_and_stays_kept(caplog: pytest.LogCaptureFixture) -> None:
    run = Run()
    run.creates(toml())
    run = run.restarts({})
    assert not run.process.running
    assert "bridge shovel, which an operator created, is not started: definition.toml:4" in caplog.text
    assert list(run.restarts().process.running) == ["shovel"]


@pytest.mark.parametrize("value", [b"{", b"[1]", json.dumps({"definition": toml("other"), "file": "x.toml"}).encode()])
def test_a_record_that_cannot_be_read_is_a_warning_until_it_is_deleted(
    value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    run = Run()
    run.stage.broker.assembly.added_bridges.put(b"bad", value)
    run.stage.settle()
    run = run.restarts()
    assert "bridge bad, which an operator created, is not started: its record in the store" in caplog.text
    assert run.deletes("bad") == [{"name": "bad", "state": "stopped"}]
    assert run.stage.store.metadata.get(BRIDGES, {}) == {}


@pytest.mark.parametrize(
    ("text", "form", "fault"),
    [
        ("[bridges.a]\n", "toml", "x.toml:1: "),
        (
            "- route: {id: r, from: {uri: 'file:/etc', steps: [{to: 'activemq:queue:A'}]}}",
            "yaml",
            "files are for those",
        ),
        (
            "- route: {id: r, from: {uri: 'activemq:queue:A', steps: [{to: 'file:/etc'}]}}",
            "yaml",
            "files are for those",
        ),
        ("- route: {id: r, from: {uri: 'activemq:queue:A', steps: [{to: 'http://h/'}]}}", "yaml", "requests over HTTP"),
        (
            toml().replace('url = "tcp://far:61616"', 'provider = "jvm"\nfactoryClass = "a.B"'),
            "toml",
            "classes in Java",
        ),
        (
            toml().replace('userName = "u"', 'trustStore = "/etc/shadow"').replace("tcp:", "ssl:"),
            "toml",
            "trust and key",
        ),
        (
            toml()
            .replace('url = "tcp://far:61616"', 'provider = "sqs"\nurl = "sqs://h?region=eu-central-1"')
            .replace('userName = "u"\n', "")
            .replace('password = "{{env:SPANWIRE_BRIDGE_PASSWORD}}"\n', ""),
            "toml",
            "the machine's own rights at Amazon",
        ),
        (toml(target="x" * MAX_DEFINITION_BYTES), "toml", "longer than 16384 bytes"),
        (toml(), "json", "format is 'json'; it is toml, yaml, xml"),
        ("\ud800", "toml", "no text in Unicode"),
    ],
)
def test_a_definition_that_cannot_be_taken_is_refused(text: str, form: str, fault: str) -> None:
    run = Run()
    assert fault in run.refuses(text, format=form, file="x")
    assert not run.process.running
    assert run.stage.store.metadata.get(BRIDGES, {}) == {}


def test_a_definition_has_one_bridge() -> None:
    two = toml() + toml("two").partition("[bridges")[2].join(["[bridges", ""])
    assert "has 2 bridges and routes; create one at a time" in Run().refuses(two)


def test_a_bridge_that_cannot_run_here_is_not_kept() -> None:
    run = Run()
    run.process.obstacle = "this broker has no OpenWire connector"
    assert run.refuses(toml()) == "this broker has no OpenWire connector"
    assert run.stage.store.metadata.get(BRIDGES, {}) == {}


def test_a_bounded_number_of_bridges_is_created(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(added_bridges, "MAX_KEPT", 2)
    run = Run()
    run.creates(toml("one"))
    run.creates(toml("two"))
    assert "there are 2 created bridges already" in run.refuses(toml("three"))
    run.creates(toml("two"), replace=True)
    run = run.restarts({})  # now both are kept, and none can be used
    assert "there are 2 created bridges already" in run.refuses(toml("three", ""))


def test_a_kept_bridge_that_could_not_be_started_is_replaced_only_on_request() -> None:
    run = Run()
    run.creates(toml())
    run = run.restarts({})
    assert "a bridge 'shovel' is kept that could not be started; replace or delete it" in run.refuses(toml(password=""))
    assert run.creates(toml(password="", target="C"), replace=True) == ""
    assert run.restarts().target("shovel") == "C"


@pytest.mark.parametrize("names", [None, [], "shovel", [1], ["x"] * 1_001])
def test_a_request_to_delete_names_bridges(names: object) -> None:
    with pytest.raises(ConfigurationError, match=r"bridges must be a list of 1 to 1000 names"):
        asyncio.run(Run().bridges.delete({"bridges": names}))
