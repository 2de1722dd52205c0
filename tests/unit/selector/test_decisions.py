"""Every decision that ActiveMQ Classic 5.17.2 was observed to take, selector by selector."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from spanwire.model.errors import InvalidSelectorError
from spanwire.selector.expression import SelectorEvaluationError
from spanwire.selector.parser import parse_selector
from tests.support.selector_values import TypedMessage

TABLE: Final[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "vectors" / "selectors.json").read_text(encoding="utf-8")
)
CASES: Final[list[dict[str, Any]]] = TABLE["cases"]
MESSAGES: Final = {
    name: TypedMessage(message["headers"], {key: (pair[0], pair[1]) for key, pair in message["properties"].items()})
    for name, message in TABLE["messages"].items()
}


def decision(text: str, message: TypedMessage) -> str:
    try:
        answer = parse_selector(text).evaluate(message)
    except InvalidSelectorError:
        return "INVALID"
    except SelectorEvaluationError:
        return "ERROR"
    return {True: "TRUE", False: "FALSE", None: "UNKNOWN"}[answer]


def test_the_table_is_whole() -> None:
    assert len(CASES) == TABLE["about"]["count"] == 872


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_decides_as_activemq_classic_does(case: dict[str, Any]) -> None:
    message = MESSAGES[case["message"]]
    wanted = case.get("ours", case["result"])
    assert decision(case["selector"], message) == wanted
    if wanted != "INVALID":
        assert parse_selector(case["selector"]).matches(message) == (wanted == "TRUE")
