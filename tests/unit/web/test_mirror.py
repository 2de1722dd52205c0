"""The copy of the destinations' rows in the web process."""

from __future__ import annotations

import asyncio

import pytest

from spanwire.management.control_client import ControlError
from spanwire.web.mirror import CHANGED_PER_ROW, LOOKED_PER_ROW, DestinationMirror

COLUMNS = ["destination", "pending"]


class Link:
    """Gives the answers in their order."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, object]] = []

    async def ask(self, command: str, **arguments: object) -> object:
        self.asked.append({"command": command, **arguments})
        return self.answers.pop(0)


def answer(since: int, *rows: list[object], removed: tuple[str, ...] = (), complete: bool = False) -> list[object]:
    header = {"since": [1, since], "complete": complete, "removed": len(removed), "columns": COLUMNS}
    return [header, *removed, *rows]


def read(mirror: DestinationMirror, handle: str = "") -> list[dict[str, object]]:
    return asyncio.run(mirror.rows(handle))


def test_rows_follow_the_changes_in_the_order_of_names() -> None:
    link = Link(
        answer(1, ["queue://B", 1], ["queue://A", 2], complete=True),
        answer(2, ["queue://B", 5]),
        answer(3, ["queue://A", 0], ["queue://C", 9], removed=("queue://A", "queue://B", "queue://X")),
        answer(1, ["queue://Z", 1], complete=True),
    )
    mirror = DestinationMirror(link)
    first = read(mirror, "h")
    assert [(row["destination"], row["pending"]) for row in first] == [("queue://A", 2), ("queue://B", 1)]
    assert first[0]["memory_percent"] == 0  # a figure that follows from others
    second = read(mirror)
    assert [row["pending"] for row in second] == [2, 5]
    assert second[0] is first[0]
    assert [row["pending"] for row in first] == [2, 1]
    assert [(row["destination"], row["pending"]) for row in read(mirror)] == [("queue://A", 0), ("queue://C", 9)]
    assert [row["destination"] for row in read(mirror)] == ["queue://Z"]
    assert link.asked[0] == {"command": "changes", "since": None, "handle": "h"}
    assert [asked["since"] for asked in link.asked[1:]] == [[1, 1], [1, 2], [1, 3]]


def test_the_cost_of_an_answer_is_that_of_looking_and_of_changed_rows() -> None:
    count = 20 * LOOKED_PER_ROW
    rows: list[list[object]] = [[f"queue://{number}", 0] for number in range(count)]
    mirror = DestinationMirror(Link(answer(1, *rows, complete=True), answer(2, *rows[: 3 * CHANGED_PER_ROW])))
    read(mirror)
    assert mirror.cost == 20 + count // CHANGED_PER_ROW
    read(mirror)
    assert mirror.cost == 20 + 3


@pytest.mark.parametrize("wrong", [None, {}, [], [[1]], "x"])
def test_an_answer_of_another_form_is_an_error_and_no_row(wrong: object) -> None:
    with pytest.raises(ControlError, match="another form"):
        read(DestinationMirror(Link(wrong)))
