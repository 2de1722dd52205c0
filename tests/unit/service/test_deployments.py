"""The deploy directory: files that come, change, break and go."""

from __future__ import annotations

import asyncio
import errno
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from spanwire.model.errors import ConfigurationError
from spanwire.service.children.deployments import Deployments
from spanwire.service.config.interpretation.deployed_file import DeployedFileReader

if TYPE_CHECKING:
    from spanwire.bridges.model.route_definition import Definition

ROUTE: Final = (
    "- route: {{id: {name}, from: {{uri: 'activemq:queue:A', steps: [{{to: 'activemq:queue:{target}'}}]}}}}\n"
)


class Directory:
    """A deploy directory, and the routes that would run."""

    def __init__(self, path: Path) -> None:
        self.path: Final = path
        self.running: Final[dict[str, Definition]] = {}
        self.replaced: Final[list[tuple[list[str], list[str]]]] = []
        self.refuses = False
        self.deployments: Final = Deployments(path, ["taken"], DeployedFileReader("b", {}).read, self._replace)

    async def _replace(self, names: list[str], definitions: list[Definition]) -> bool:
        if self.refuses:
            return False
        self.replaced.append((names, [definition.name for definition in definitions]))
        for name in names:
            del self.running[name]
        self.running.update({definition.name: definition for definition in definitions})
        return True

    def write(self, name: str, text: str) -> None:
        (self.path / name).write_text(text)

    def looks(self, count: int = 2) -> list[str]:
        """Look so often; the names of the routes that run then."""

        async def scenario() -> None:
            for _ in range(count):
                await self.deployments.look()

        asyncio.run(scenario())
        return sorted(self.running)


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]


@pytest.fixture
def directory(tmp_path: Path) -> Directory:
    tmp_path.chmod(0o755)
    return Directory(tmp_path)


def test_a_file_starts_its_routes_once_it_has_settled_and_stops_them_when_it_goes(directory: Directory) -> None:
    directory.write("a.yaml", ROUTE.format(name="one", target="B") + ROUTE.format(name="two", target="C"))
    assert directory.looks(1) == []
    assert directory.looks(1) == ["one", "two"]
    assert directory.looks(3) == ["one", "two"]
    (directory.path / "a.yaml").unlink()
    assert directory.looks(1) == []
    assert directory.replaced == [([], ["one", "two"]), (["one", "two"], [])]


def test_a_changed_file_replaces_its_routes(directory: Directory) -> None:
    directory.write("a.yaml", ROUTE.format(name="one", target="B"))
    directory.looks()
    directory.write("a.yaml", ROUTE.format(name="one", target="BB") + ROUTE.format(name="two", target="C"))
    assert directory.looks() == ["one", "two"]
    assert directory.replaced[-1] == (["one"], ["one", "two"])


def test_a_broken_file_is_one_line_and_its_former_routes_go_on(
    directory: Directory, caplog: pytest.LogCaptureFixture
) -> None:
    directory.write("a.yaml", ROUTE.format(name="one", target="B"))
    directory.write("b.yaml", "- route: {id: x, from: {uri: 'activemq:queue:A', steps: [{tto: 'activemq:queue:B'}]}}\n")
    assert directory.looks(4) == ["one"]
    (line,) = errors(caplog)
    assert line == f"not deployed: {directory.path}/b.yaml:1: there is no step 'tto'; did you mean to?"
    directory.write("a.yaml", "- broken: [\n")
    assert directory.looks() == ["one"]
    assert errors(caplog)[-1].endswith("; its former routes go on")
    directory.write("a.yaml", ROUTE.format(name="mended", target="B"))
    assert directory.looks() == ["mended"]


def test_a_name_of_another_file_or_of_the_configuration_is_refused(
    directory: Directory, caplog: pytest.LogCaptureFixture
) -> None:
    directory.write("a.yaml", ROUTE.format(name="one", target="B"))
    directory.write("b.yaml", ROUTE.format(name="one", target="B"))
    directory.write("c.yaml", ROUTE.format(name="taken", target="B"))
    assert directory.looks() == ["one"]
    assert [line.count("already; rename it") for line in errors(caplog)] == [1, 1]


def test_routes_without_an_id_have_the_name_of_their_file(directory: Directory) -> None:
    directory.write(
        "a.xml", "<camelContext><route><from uri='activemq:A'/><to uri='activemq:B'/></route></camelContext>"
    )
    directory.write(".b.xml", "never read")
    directory.write("c.xml~", "never read")
    assert directory.looks() == ["a-route1"]


def test_bridges_in_toml_are_deployed_and_distributed_ones_refused(
    directory: Directory, caplog: pytest.LogCaptureFixture
) -> None:
    bridge = """[bridges.{}]
sourceConnectionFactory = "tcp://a:1"
sourceDestination = "queue://A"
targetConnectionFactory = "tcp://b:1"
targetDestination = "queue://B"
qualityOfServiceMode = "{}"
"""
    directory.write("a.toml", bridge.format("plain", "DUPLICATES_OK"))
    directory.write("b.toml", bridge.format("exact", "ONCE_AND_ONLY_ONCE"))
    assert directory.looks() == ["plain"]
    assert "exact: ONCE_AND_ONLY_ONCE between two brokers is not for routes of a broker" in caplog.text


def test_what_others_can_write_is_never_read(directory: Directory, caplog: pytest.LogCaptureFixture) -> None:
    directory.write("a.yaml", ROUTE.format(name="one", target="B"))
    (directory.path / "a.yaml").chmod(0o666)
    outside = directory.path.parent / "outside.yaml"
    outside.write_text(ROUTE.format(name="two", target="B"))
    (directory.path / "b.yaml").symlink_to(outside)
    assert directory.looks() == []
    assert "can be written by other users: chmod go-w" in caplog.text and "is a symbolic link" in caplog.text
    directory.path.chmod(0o777)
    caplog.clear()
    assert directory.looks(3) == []
    assert [line.partition(":")[0] for line in errors(caplog)] == ["nothing is deployed"]


def test_routes_that_cannot_start_are_not_called_deployed_and_the_former_ones_stay_known(
    directory: Directory, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    directory.write("a.yaml", ROUTE.format(name="one", target="B"))
    directory.looks()
    directory.refuses = True
    directory.write("a.yaml", ROUTE.format(name="second", target="B"))
    assert directory.looks() == ["one"]
    assert "deployed a.yaml: second" not in caplog.text
    directory.refuses = False
    (directory.path / "a.yaml").unlink()
    assert directory.looks(1) == []


def test_a_directory_that_cannot_be_listed_is_one_line_and_looked_at_again(
    directory: Directory, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    directory.write("a.yaml", ROUTE.format(name="one", target="B"))
    with monkeypatch.context() as patched:
        patched.setattr(Path, "iterdir", refuse)
        assert directory.looks(3) == []
    assert errors(caplog) == [f"nothing is deployed: the deploy directory {directory.path}: Permission denied"]
    assert directory.looks() == ["one"]


def test_an_unknown_file_type_of_a_broker_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"c\.xml: there is no route|c\.xml:1: "):
        DeployedFileReader("b", {}).read(b"<beans><broker/></beans>", Path("c.xml"), [])


@pytest.mark.parametrize(
    ("name", "text", "advice"),
    [
        (
            "r.yaml",
            ROUTE.format(name="a", target="B").replace("activemq:", "shop:"),
            "a broker name it in brokers of the file",
        ),
        (
            "r.xml",
            "<beans><camelContext><route><from uri='shop:A'/><to uri='activemq:B'/></route></camelContext></beans>",
            "a broker write a bean of its component with the id 'shop'",
        ),
        (
            "r.xml",
            "<beans><bean id='far' class='x.ActiveMQComponent'><property name='brokerURL' value='vm://other'/></bean>"
            "<camelContext><route><from uri='far:A'/><to uri='activemq:B'/></route></camelContext></beans>",
            "say where it listens with a brokerURL in the file",
        ),
    ],
)
def test_a_file_of_the_directory_is_told_to_name_its_brokers_itself(name: str, text: str, advice: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        DeployedFileReader("b", {}).read(text.encode(), Path(name), [])
    assert advice in str(raised.value)
    assert "--broker" not in str(raised.value)
    assert "-D" not in str(raised.value)


def test_a_name_that_is_taken_while_a_file_is_read_is_not_taken_twice(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    names: list[str] = []
    directory = Directory(tmp_path)
    reader = DeployedFileReader("b", {})

    def read(content: bytes, path: Path, taken: list[str]) -> tuple[list[Definition], list[str]]:
        found = reader.read(content, path, taken)
        names.append("late")
        return found

    directory.write("a.yaml", ROUTE.format(name="late", target="B"))
    deployments = Deployments(tmp_path, names, read, directory._replace)

    async def scenario() -> None:
        for _ in range(2):
            await deployments.look()

    asyncio.run(scenario())
    assert not directory.running
    assert "there is a bridge or route 'late' already" in errors(caplog)[0]
