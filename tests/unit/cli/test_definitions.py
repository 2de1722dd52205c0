"""``spanwire definitions import`` says what became of an object whose change was refused on the way."""

from __future__ import annotations

import pytest

from spanwire.cli.management.definitions import _do
from spanwire.management.control_client import ControlError
from spanwire.management.definitions.steps import Step

STEP = Step(
    "replace connector tcp",
    (("connector-remove", {}), ("connector-add", {"uri": "new"}), ("connector-stop", {})),
    undo=(("connector-add", {"uri": "old"}),),
)


class Refusing:
    """A broker that refuses some requests, and keeps the others."""

    def __init__(self, *refused: str) -> None:
        self._refused = list(refused)
        self.done: list[str] = []

    def ask(self, command: str, **arguments: object) -> object:
        request = f"{command} {arguments.get('uri', '')}".strip()
        if request in self._refused:
            raise ControlError(f"{request}: no")
        self.done.append(request)
        return None


@pytest.mark.parametrize(
    ("refused", "done", "words"),
    [
        ((), ["connector-remove", "connector-add new", "connector-stop"], ""),
        (("connector-remove",), [], "connector-remove: no"),
        (
            ("connector-add new",),
            ["connector-remove", "connector-add old"],
            "connector-add new: no; it is as it was",
        ),
        (
            ("connector-add new", "connector-add old"),
            ["connector-remove"],
            "connector-add new: no; it is removed, and was not put back: connector-add old: no",
        ),
        (
            ("connector-stop",),
            ["connector-remove", "connector-add new"],
            "connector-stop: no; the new one is there and runs",
        ),
    ],
)
def test_a_refusal_says_what_is_there_now(refused: tuple[str, ...], done: list[str], words: str) -> None:
    client = Refusing(*refused)
    assert _do(client, STEP) == words  # type: ignore[arg-type]
    assert client.done == done
