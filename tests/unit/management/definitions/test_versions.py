"""Documents of every released version are read, and those of a newer one refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from spanwire.management.definitions.document import VERSION, from_toml
from spanwire.model.errors import ConfigurationError
from tests.vectors.definitions.make import readable

DOCUMENTS: Final = Path(__file__).resolve().parents[3] / "vectors/definitions"
VERSIONS: Final = range(1, VERSION + 1)


def test_there_is_a_document_of_each_version() -> None:
    assert sorted(path.name for path in DOCUMENTS.glob("*.toml")) == [f"version-{number}.toml" for number in VERSIONS]


@pytest.mark.parametrize("number", VERSIONS)
def test_a_document_of_each_version_is_read(number: int) -> None:
    expected = json.loads((DOCUMENTS / f"version-{number}.json").read_text("utf-8"))
    document = readable(from_toml((DOCUMENTS / f"version-{number}.toml").read_bytes(), "kept.toml"))
    assert json.loads(json.dumps(document)) == expected


def test_a_document_of_a_newer_version_is_refused_in_one_line() -> None:
    with pytest.raises(ConfigurationError) as refused:
        from_toml(f'format = "spanwire-definitions"\nversion = {VERSION + 1}\n'.encode(), "a.toml")
    assert str(refused.value) == (
        f"a.toml: has the version {VERSION + 1} of a newer Spanwire, and this one reads up to {VERSION}: use "
        "the newer one"
    )
