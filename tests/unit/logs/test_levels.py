"""Levels of loggers are shown and set; the audit log is never hidden."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

import pytest

from spanwire.logs.levels import AUDIT, ROOT, chosen_levels, log_level
from spanwire.model.errors import ConfigurationError

LOGGER = "spanwire.tests.levels"
PARENT = "spanwire.tests"
LIBRARY = "library_of_a_test"


@pytest.fixture(autouse=True)
def _levels_end_with_their_test() -> Iterator[None]:
    root = logging.getLogger()
    before = root.level
    root.setLevel(logging.INFO)
    logging.getLogger(LOGGER)
    yield
    root.setLevel(before)
    for name in (LOGGER, PARENT, LIBRARY, AUDIT, "spanwire"):
        logging.getLogger(name).setLevel(logging.NOTSET)


def asked(**arguments: object) -> list[dict[str, object]]:
    return asyncio.run(log_level(arguments))


def test_a_level_that_is_set_is_shown_and_holds() -> None:
    assert {"logger": LOGGER, "level": "debug"} in asked(logger=LOGGER, level="DEBUG")
    assert logging.getLogger(LOGGER).isEnabledFor(logging.DEBUG)
    assert {"logger": LOGGER, "level": "debug"} in asked()
    asked(logger=LOGGER, level="inherited")
    assert asked(logger=LOGGER) == [{"logger": LOGGER, "level": "info"}]


def test_a_package_has_a_level_for_its_modules() -> None:
    asked(logger=PARENT, level="error")
    assert asked(logger=LOGGER) == [{"logger": LOGGER, "level": "error"}]


def test_the_root_is_shown_first() -> None:
    assert asked(logger=ROOT, level="debug")[0] == {"logger": ROOT, "level": "debug"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"logger": "spanwire.unheard"}, "there is no logger 'spanwire.unheard'"),
        ({"logger": LOGGER, "level": "loud"}, "level is one of debug, info, warning, error, inherited"),
        ({"logger": LOGGER, "level": 10}, "level is one of"),
        ({"level": "info"}, "logger is the name of a logger"),
        ({"logger": 5}, "logger is the name of a logger"),
        ({"logger": ROOT, "level": "inherited"}, "has none to inherit"),
        ({"logger": AUDIT, "level": "warning"}, "cannot be hidden"),
        ({"logger": AUDIT, "level": "inherited"}, "cannot be hidden"),
    ],
)
def test_other_requests_are_refused(arguments: dict[str, object], words: str) -> None:
    logging.getLogger(AUDIT)
    with pytest.raises(ConfigurationError, match=words):
        asked(**arguments)


def test_a_refused_name_makes_no_logger() -> None:
    with pytest.raises(ConfigurationError):
        asked(logger="spanwire.made.up")
    assert "spanwire.made.up" not in logging.root.manager.loggerDict


def test_a_logger_of_a_library_belongs_to_the_broker_once_an_operator_has_set_it() -> None:
    logging.getLogger(LIBRARY).setLevel(logging.ERROR)
    assert LIBRARY not in [row["logger"] for row in chosen_levels()]
    asked(logger=LIBRARY, level="debug")
    asked(logger=LOGGER, level="debug")
    chosen = chosen_levels()
    assert {"logger": LIBRARY, "level": "debug"} in chosen and {"logger": LOGGER, "level": "debug"} in chosen


@pytest.mark.parametrize("name", [ROOT, "spanwire"])
def test_the_audit_log_goes_on_when_others_are_quiet(name: str) -> None:
    logging.getLogger(AUDIT)
    asked(logger=name, level="error")
    assert logging.getLogger(AUDIT).isEnabledFor(logging.INFO)
    assert not logging.getLogger(LOGGER).isEnabledFor(logging.INFO)
