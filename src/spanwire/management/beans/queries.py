"""ActiveMQ's queries of destinations: a filter in JSON, a page, and a JSON text as the answer.

{"name": "ORD", "filter": "nonEmpty", "sortColumn": "queueSize", "sortOrder": "desc"}
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Final

from spanwire.management.beans.bean import Row, destination_name, number, short, values_of
from spanwire.management.beans.errors import ILLEGAL, BeanError
from spanwire.management.tables.attributes import ViewTable
from spanwire.management.tables.view_table import ADVISORY_TOPICS, rows_of

MAX_PAGE: Final = 1_000  # destinations of one page; about 600 KB of JSON
MAX_DIGITS: Final = 9
FILTERS: Final[dict[str, Callable[[Row], bool]]] = {
    "": lambda row: True,
    "empty": lambda row: number(row.get("pending")) == 0,
    "nonEmpty": lambda row: number(row.get("pending")) > 0,
    "noConsumer": lambda row: number(row.get("consumers")) == 0,
    "nonAdvisory": lambda row: not str(row["destination"]).startswith(ADVISORY_TOPICS),
}


def queried(view: ViewTable, answer: object, broker: str, words: Sequence[str]) -> str:
    """Return a page of destinations found by a filter, by the beans' names, and the number on all pages.

    Args:
        view: the table of queues or of topics.
        answer: the broker's answer with all destinations.
        broker: the name of the broker's bean.
        words: the filter, the number of the page from 1 on, and the size of a page.

    Raises:
        BeanError: a word is no filter or number
    """
    asked = _filter(words[0])
    page, size = _whole(words[1]), min(_whole(words[2]), MAX_PAGE)
    wanted = FILTERS.get(str(asked.get("filter", "")))
    if wanted is None:
        known = ", ".join(name for name in FILTERS if name)
        raise BeanError(400, ILLEGAL, f"the filter is one of {known}")
    part = str(asked.get("name") or "")
    rows = [row for row in rows_of(view, answer) if part in short(row) and wanted(row)]
    beans = {bean.lower(): name for bean, name in view.beans()}
    column = beans.get(str(asked.get("sortColumn", "name")).lower(), "destination")
    rows.sort(key=lambda row: (row.get(column) is not None, row.get(column)))
    if str(asked.get("sortOrder", "asc")).lower() == "desc":
        rows.reverse()
    shown = rows[(page - 1) * size : page * size]
    data = {destination_name(broker, row): {"name": short(row), **_lowered(view, row)} for row in shown}
    return json.dumps({"data": data, "count": len(rows)})


def _lowered(view: ViewTable, row: Row) -> dict[str, object]:
    """Return attributes with a small first letter, as in ActiveMQ's JSON."""
    return {name[0].lower() + name[1:]: value for name, value in values_of(view, row).items()}


def _filter(text: str) -> dict[str, object]:
    try:
        asked = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        raise BeanError(400, ILLEGAL, "the filter is no JSON") from error
    if not isinstance(asked, dict):
        raise BeanError(400, ILLEGAL, "the filter is no JSON object")
    return asked


def _whole(word: str) -> int:
    if not (word.isascii() and word.isdigit() and len(word) <= MAX_DIGITS and 1 <= int(word)):
        raise BeanError(400, ILLEGAL, "page and size of the page are whole numbers from 1 on")
    return int(word)
