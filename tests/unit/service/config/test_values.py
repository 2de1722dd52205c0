"""Values of settings: what a wrong one tells, and what it never does."""

from __future__ import annotations

import pytest

from spanwire.documents.element import Attribute, Element
from spanwire.model.errors import ConfigurationError
from spanwire.service.config.values.diagnostics import Findings
from spanwire.service.config.values.values import Settings, as_flag, as_size

CANARY = "c4n4ry-pa55word"


def told(name: str, value: str) -> list[str]:
    findings = Findings("a.xml")
    settings = Settings(Element("element", 1, attributes={name: Attribute(value, 7)}), findings)
    assert settings.flag(name, True)
    assert settings.number(name, 5) == 5
    assert settings.size(name, 6) == 6
    with pytest.raises(ConfigurationError) as raised:
        findings.raise_if_any()
    return str(raised.value).splitlines()


@pytest.mark.parametrize("name", ["password", "keyStorePassword", "remotePASSWORD"])
def test_s25_a_wrong_value_of_a_password_is_not_repeated(name: str) -> None:
    lines = told(name, CANARY)
    assert len(lines) == 3
    assert not any(CANARY in line for line in lines)


def test_any_other_wrong_value_is_repeated_up_to_a_length() -> None:
    assert told("limit", "x" * 100)[0] == f"a.xml:7: limit of <element> is {'x' * 40!r}, it must be true or false"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("64 mb", 64 * 1024**2),
        ("1GB", 1024**3),
        ("512k", 512 * 1024),
        ("1024", 1024),
        ("10b", 10),
        ("", None),
        ("-1", None),
        ("1.5 gb", None),
        ("1 tb", None),
        ("٣ mb", None),
        ("9" * 19 + " gb", None),
    ],
)
def test_sizes_have_units_that_count_by_1024(text: str, size: int | None) -> None:
    assert as_size(text) == size


def test_only_true_and_false_are_flags() -> None:
    assert [as_flag(text) for text in ("true", " FALSE ", "yes", "1", "")] == [True, False, None, None, None]
