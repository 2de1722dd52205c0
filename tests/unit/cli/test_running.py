"""One function finds the broker that a command means: by directory, file, name, environment, or as the only one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from spanwire.cli.arguments import Parser, placement
from spanwire.cli.bridges.operate import no_bridge
from spanwire.cli.main import main
from spanwire.cli.process.list import duration, table
from spanwire.cli.running import broker_directory
from spanwire.management.running_brokers import ListedBroker, RunningEntry
from spanwire.model.errors import ConfigurationError

FILE = '<broker brokerName="{name}" dataDirectory="{data}"/>'


class Estate:
    """Brokers that are listed as running, and an environment in which nothing else is."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        runtime = directory / "runtime"
        runtime.mkdir(mode=0o700)
        self.environment = {"XDG_RUNTIME_DIR": str(runtime), "TMPDIR": str(runtime), "HOME": str(directory)}
        self.entries: list[RunningEntry] = []

    def file(self, name: str) -> Path:
        path = self.directory / f"{name}.xml"
        path.write_text(FILE.format(name=name, data=self.directory / "configured" / name), "utf-8")
        return path

    def runs(self, name: str, data: Path, file: Path | None = None) -> None:
        listed = ListedBroker(name, 4711, str(data), "" if file is None else str(file), (), 0)
        self.entries.append(RunningEntry(self.directory / "runtime" / "spanwire", listed))

    def finds(self, *words: str) -> Path:
        parser = Parser(prog="spanwire test", description="A test.")
        placement(parser)
        return broker_directory(parser.parse(words), self.environment)

    def refusal(self, *words: str) -> str:
        with pytest.raises(ConfigurationError) as raised:
            self.finds(*words)
        return str(raised.value)


@pytest.fixture
def estate(tmp_path: Path) -> Iterator[Estate]:
    made = Estate(tmp_path)
    yield made
    for entry in made.entries:
        entry.withdraw()


def test_the_only_running_broker_is_meant(estate: Estate) -> None:
    estate.runs("a", Path("/data/a"))
    assert estate.finds() == Path("/data/a")


def test_of_several_running_brokers_none_is_guessed(estate: Estate) -> None:
    estate.runs("a", Path("/data/a"), Path("/etc/a.xml"))
    estate.runs("b", Path("/data/b"))
    refusal = estate.refusal().splitlines()
    assert refusal == [
        "2 brokers run; name one by --configuration NAME (or its file), or by --data-directory:",
        "  a (process 4711), file /etc/a.xml, --data-directory /data/a",
        "  b (process 4711), --data-directory /data/b",
    ]


def test_a_health_check_names_the_running_brokers_on_its_one_line(
    estate: Estate, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    estate.runs("a", Path("/data/a"))
    estate.runs("b", Path("/data/b"))
    for name, value in estate.environment.items():
        monkeypatch.setenv(name, value)
    assert main(["health"]) == 2
    first, *_ = capsys.readouterr().out.splitlines()
    assert first == (
        "SPANWIRE CRITICAL - broker: 2 brokers run; name one by --configuration NAME (or its file), "
        "or by --data-directory: "
        "a (process 4711), --data-directory /data/a; b (process 4711), --data-directory /data/b"
    )


def test_without_any_broker_the_error_says_what_to_do(estate: Estate) -> None:
    assert "no broker of this user runs; start one with spanwire start" in estate.refusal()


def test_a_file_means_the_broker_that_was_started_with_it(estate: Estate) -> None:
    file = estate.file("a")
    estate.runs("a", Path("/elsewhere/a"), file)
    estate.runs("b", Path("/data/b"))
    for words in ([str(file)], [f"xbean:{file}"], ["--configuration", str(file)], [f"xbean:file:{file}"]):
        assert estate.finds(*words) == Path("/elsewhere/a")


def test_the_environment_names_a_file_that_the_command_line_overrides(estate: Estate) -> None:
    a, b = estate.file("a"), estate.file("b")
    estate.environment["SPANWIRE_CONFIGURATION"] = str(a)
    assert estate.finds() == estate.directory / "configured" / "a"
    assert estate.finds(str(b)) == estate.directory / "configured" / "b"


def test_a_name_means_the_running_broker_of_that_name(estate: Estate) -> None:
    estate.runs("a", Path("/data/a"))
    estate.runs("b", Path("/data/b"))
    assert estate.finds("b") == Path("/data/b")
    assert estate.refusal("c") == "no running broker is named c; running brokers are a, b"


def test_the_list_of_bridges_takes_a_broker_and_tells_how_to_name_a_bridge(
    estate: Estate, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in estate.environment.items():
        monkeypatch.setenv(name, value)
    estate.runs("a", Path("/data/a"))
    assert main(["bridge", "list", "orders"]) == 1
    assert capsys.readouterr().err == (
        "spanwire bridge: no running broker is named orders; running brokers are a; spanwire bridge status NAME shows "
        "a bridge\n"
    )


def test_a_broker_in_the_place_of_a_bridge_is_told_its_option(estate: Estate) -> None:
    estate.runs("a", Path("/data/a"))
    assert no_bridge("b", estate.environment) == "this broker has no bridge 'b'; spanwire bridge list shows all"
    assert no_bridge("a", estate.environment).endswith("; the name of a broker is written as --configuration a")


def test_two_brokers_of_one_file_are_told_apart_by_placeholders(estate: Estate, tmp_path: Path) -> None:
    file = tmp_path / "both.xml"
    file.write_text(FILE.format(name="x", data="/data/${which}"), "utf-8")
    estate.runs("x", Path("/data/1"), file)
    assert estate.finds(str(file), "-Dwhich=2") == Path("/data/2")
    estate.runs("x", Path("/data/2"), file)
    assert estate.finds(str(file), "-Dwhich=2") == Path("/data/2")


def test_two_brokers_of_one_file_elsewhere_are_not_guessed(estate: Estate) -> None:
    file = estate.file("a")
    estate.runs("a", Path("/data/1"), file)
    estate.runs("a", Path("/data/2"), file)
    assert "2 brokers run; name one" in estate.refusal(str(file))


def test_the_data_directory_goes_before_everything(estate: Estate) -> None:
    estate.runs("a", Path("/data/a"))
    assert estate.finds("a", "--data-directory", "/data/other") == Path("/data/other")


def test_the_directory_variable_names_a_broker(estate: Estate) -> None:
    estate.runs("a", Path("/data/a"))
    estate.environment["SPANWIRE_DATA"] = "/data/mine"
    assert estate.finds() == Path("/data/mine")


def test_a_broker_that_is_not_listed_is_found_in_the_usual_place(estate: Estate) -> None:
    usual = estate.directory / ".local" / "share" / "spanwire" / "localhost"
    usual.mkdir(parents=True)
    (usual / "control.sock").touch()
    assert estate.finds() == usual


def test_naming_two_brokers_is_refused(estate: Estate, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        estate.finds("a.xml", "--configuration", "b.xml")
    assert "two brokers are named" in capsys.readouterr().err


def test_the_list_shows_all_that_names_a_broker() -> None:
    listed = ListedBroker("a\x1b", 4711, "/data/a", "/etc/a.xml", ("tcp://h:1", "stomp://h:2"), 1_000)
    assert table([listed], 3_661_000).splitlines() == [
        "Name     PID   Uptime     Listens at              Data directory  Configuration",
        "a\\u001b  4711  1 h 1 min  tcp://h:1, stomp://h:2  /data/a         /etc/a.xml",
    ]


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0 s"), (59, "59 s"), (61, "1 min 1 s"), (86_399, "23 h 59 min"), (90_000, "1 d 1 h")],
)
def test_an_uptime_has_its_two_largest_units(seconds: int, shown: str) -> None:
    assert duration(seconds) == shown
