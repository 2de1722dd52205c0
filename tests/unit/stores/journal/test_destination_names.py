"""Names of destinations in a journal: no name reaches the file system, and names that look alike stay apart."""

from __future__ import annotations

import re
import unicodedata

import pytest

from spanwire.model.destination import MAX_NAME_BYTES, QUEUE, Destination, check_name
from spanwire.model.errors import InvalidDestinationError
from tests.support.journal_driver import JournalDriver, recovered_state
from tests.support.plain_format import plain_message

HOSTILE = (
    "../../etc/passwd", "..\\..\\windows\\win.ini", "/etc/passwd", "C:\\secret", "file:///etc/passwd", "..", ".",
    "~root", "CON", "NUL.txt", "lock", "0000000001.journal", "a/b/c", "$(touch pwned)", "%2e%2e%2fetc",
    "x" * MAX_NAME_BYTES,
    unicodedata.normalize("NFC", "caf\u00e9"), unicodedata.normalize("NFD", "caf\u00e9"),
    "ORDERS", "orders", "\u202eSREDRO",
)  # fmt: skip
OURS = re.compile(r"[0-9]{10}\.(?:journal|summary)")  # names of files hold numbers alone


def test_s41_no_file_is_named_after_a_destination_and_twins_stay_apart() -> None:
    driver = JournalDriver()
    destinations = [Destination(QUEUE, name) for name in HOSTILE]
    plain = JournalDriver()
    for number, destination in enumerate(destinations):
        check_name(destination.name)
        driver.store.append(destination, plain_message(destination, number, b"x"))
        driver.turn()
        ordinary = Destination(QUEUE, f"Q{number}")
        plain.store.append(ordinary, plain_message(ordinary, number, b"x"))
        plain.turn()
    files = driver.disk.files()
    assert files
    assert [name for name in files if not OURS.fullmatch(name)] == [
        name for name in plain.disk.files() if not OURS.fullmatch(name)
    ]
    state = recovered_state(driver.disk.copy())
    assert {name: len(messages) for name, messages in state.items()} == {
        destination.qualified_name: 1 for destination in destinations
    }


@pytest.mark.parametrize(
    "name",
    ["", "a\0b", "a\nb", "a\x7fb", " a", "a ", "\ud800", "x" * (MAX_NAME_BYTES + 1), "\u20ac" * 342, "x" * 10_240],
)
def test_s41_an_ambiguous_or_endless_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidDestinationError) as caught:
        check_name(name)
    assert len(str(caught.value)) < 200
