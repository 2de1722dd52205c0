"""What becomes of the configurations that documents print and people paste.

``sample_outcomes.txt`` says of every sample what its document promises, what this version makes of it line by line, and
why the two differ where they do. A sample that loads in a later version moves up there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from spanwire.model.errors import ConfigurationError
from spanwire.service.config.loading import load_configuration

SAMPLES: Final = Path(__file__).parents[3] / "vectors" / "configurations"
OUTCOMES: Final = Path(__file__).with_name("sample_outcomes.txt")
ENVIRONMENT: Final = {"BROKER_NAME": "fromEnvironment", "DATA": "data"}
SKIPPABLE: Final = " or start with --skip-unsupported"
LATER: Final = re.compile(
    r"(?P<line>\d+): (?P<word>.*) is not (?:yet )?supported(?P<feature> \((?:it asks for|later feature:) [^()]*\));.*"
)


@dataclass
class Outcome:
    """One block of the table. ``connectors`` None means refused, ``skipping`` is that with --skip-unsupported."""

    documented: str = ""
    differs: str = ""
    connectors: int | None = None
    skipping: int | None = None
    warnings: list[str] = field(default_factory=list)
    obstacles: list[str] = field(default_factory=list)


def read_outcomes() -> dict[str, Outcome]:
    found: dict[str, Outcome] = {}
    for block in OUTCOMES.read_text("utf-8").split("\n\n"):
        name, *lines = block.strip().splitlines()
        outcome = found[name] = Outcome()
        for line in lines:
            kind, _, text = line.strip().partition(" ")
            if kind in ("documented", "differs"):
                setattr(outcome, kind, text)
            elif kind in ("warning", "obstacle"):
                (outcome.warnings if kind == "warning" else outcome.obstacles).append(text)
            elif kind in ("loads", "refused"):
                outcome.connectors = int(text) if kind == "loads" else None
            else:
                assert kind == "skipping"
                outcome.skipping = int(text.removeprefix("loads ")) if text != "refused" else None
    return found


TABLE: Final = read_outcomes()
LOADS: Final = [name for name, outcome in TABLE.items() if outcome.connectors is not None]
REFUSED: Final = [name for name, outcome in TABLE.items() if outcome.connectors is None]
SKIPPED: Final = [name for name, outcome in TABLE.items() if outcome.skipping is not None]


def place(name: str) -> str:
    return f"{SAMPLES / name}:"


def refusal(name: str, skip_unsupported: bool = False) -> list[str]:
    with pytest.raises(ConfigurationError) as raised:
        load_configuration(str(SAMPLES / name), environment=ENVIRONMENT, skip_unsupported=skip_unsupported)
    return [line.removeprefix(place(name)) for line in str(raised.value).splitlines()]


def test_the_table_names_every_sample_once() -> None:
    assert {path.name for path in SAMPLES.glob("*.xml")} == TABLE.keys()
    assert len(TABLE) == len(LOADS) + len(REFUSED) == 83


@pytest.mark.parametrize("name", TABLE)
def test_where_a_sample_ends_otherwise_than_its_document_says_the_table_says_why(name: str) -> None:
    outcome = TABLE[name]
    assert outcome.documented.startswith(("loads", "refused"))
    differs = outcome.documented.startswith("loads") != (outcome.connectors is not None)
    differs = differs or ("warning" in outcome.documented and not outcome.warnings)
    assert outcome.differs or not differs


@pytest.mark.parametrize("name", LOADS)
def test_a_sample_of_what_is_built_loads(name: str) -> None:
    configuration = load_configuration(str(SAMPLES / name), environment=ENVIRONMENT)
    assert len(configuration.connectors) == TABLE[name].connectors
    assert [line.removeprefix(place(name)) for line in configuration.warnings] == TABLE[name].warnings
    assert configuration.skipped == ()


@pytest.mark.parametrize("name", REFUSED)
def test_a_sample_of_a_later_step_is_refused_with_every_obstacle_at_its_line(name: str) -> None:
    assert refusal(name) == TABLE[name].obstacles


@pytest.mark.parametrize("name", SKIPPED)
def test_the_rest_of_a_sample_starts_and_each_thing_left_out_is_one_line(name: str) -> None:
    expected = []
    for obstacle in TABLE[name].obstacles:
        assert obstacle.endswith(SKIPPABLE)
        found = LATER.fullmatch(obstacle)
        assert found is not None
        expected.append(f"{found['line']}: skipped: {found['word']}{found['feature']}")
    configuration = load_configuration(str(SAMPLES / name), environment=ENVIRONMENT, skip_unsupported=True)
    assert [line.removeprefix(place(name)) for line in configuration.skipped] == expected
    assert len(configuration.connectors) == TABLE[name].skipping


@pytest.mark.parametrize("name", [name for name in REFUSED if name not in SKIPPED])
def test_what_no_version_can_honour_is_refused_all_the_same(name: str) -> None:
    expected = [obstacle for obstacle in TABLE[name].obstacles if not obstacle.endswith(SKIPPABLE)]
    assert expected
    assert refusal(name, skip_unsupported=True) == expected


@pytest.mark.parametrize("name", REFUSED)
def test_what_blocks_a_sample_stands_at_the_line_the_error_names(name: str) -> None:
    text = (SAMPLES / name).read_text(encoding="utf-8").splitlines()
    for obstacle in TABLE[name].obstacles:
        number, _, words = obstacle.partition(": ")
        named = re.findall(r"<(\w+)>|class ([\w.]+)|of (\w+://\w+)", words)
        here = "\n".join(text[int(number) - 1 : int(number) + 1])
        assert any(word in here for groups in named for word in groups if word), obstacle
