"""A document of definitions survives TOML, and what is wrong with one is said with its place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.management.definitions.document import Document, from_rows, from_toml, is_document, to_toml
from spanwire.management.definitions.kinds import KINDS, LIMITS, SETTINGS, Kind, Value
from spanwire.model.errors import ConfigurationError

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
HEAD = 'format = "spanwire-definitions"\nversion = 1\n'


def value_like(default: Value) -> st.SearchStrategy[object]:
    if isinstance(default, bool):
        return st.booleans()
    if isinstance(default, int):
        return st.integers(-1, 1 << 53)
    if isinstance(default, str):
        return st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
    return st.lists(TEXT, max_size=2) if isinstance(default, list) else st.dictionaries(TEXT, TEXT, max_size=2)


def rows_of(kind: Kind) -> st.SearchStrategy[dict[str, object]]:
    return st.fixed_dictionaries(
        {"kind": st.just(kind.name), **dict.fromkeys(kind.keys, TEXT)},
        optional={name: value_like(default) for name, default in kind.defaults.items()},
    )


ROWS = st.lists(st.one_of([rows_of(kind) for kind in KINDS.values()]), max_size=8)


@given(TEXT, ROWS)
def test_a_document_is_the_same_after_toml(broker: str, rows: list[dict[str, object]]) -> None:
    document = from_rows(broker, rows)
    text = to_toml(document)
    assert is_document(text.encode())
    assert from_toml(text.encode(), "a.toml") == document
    assert to_toml(from_toml(text.encode(), "a.toml")) == text


def test_defaults_are_not_written_and_objects_stand_by_name() -> None:
    rows = [{"kind": "queue", "name": "B", "paused": True}, {"kind": "queue", "name": "A", "memory_limit_bytes": 0}]
    assert to_toml(from_rows("b", rows)).split("\n", 4)[4] == (
        '\n[[queue]]\nname = "A"\n\n[[queue]]\nname = "B"\npaused = true\n'
    )


def test_an_unpaired_surrogate_of_a_name_becomes_the_replacement_character() -> None:
    text = to_toml(from_rows("b", [{"kind": "queue", "name": "a\ud800\x7f"}]))
    assert list(from_toml(text.encode(), "a.toml").items) == [("queue", ("a\ufffd\x7f",))]


def test_what_a_newer_broker_lists_is_left_out() -> None:
    assert from_rows("b", [{"kind": "star", "name": "A"}, {"kind": "queue", "name": None}]) == Document("b", {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + 'limits = { x = """a\n"\'\n"""", a' + " . 'b'" * 10_000 + " = 1 }", "a name has more than"),
        (HEAD + f"'#'{'.a' * 10_000} = 1", "a name has more than"),
        ("version = 1", 'begin it with format = "spanwire-definitions" and version = 1'),
        ('format = "spanwire-definitions"\nversion = 0', "begin it with"),
        ("[[queue", "the TOML is broken"),
        (HEAD + "[[queues]]\nname = 'A'", "there is no kind [queues]; did you mean queue?"),
        (HEAD + "[queue]\nname = 'A'", "write [[queue]] before each of the queues"),
        (HEAD + "queue = [1]", "[[queue]] number 1 is no table"),
        (HEAD + "[[queue]]\npaused = true", '[[queue]] number 1: write name = "…"'),
        (HEAD + "[[queue]]\nname = 'A'\npausd = true", "there is no 'pausd'; did you mean paused?"),
        (HEAD + "[[queue]]\nname = 'A'\npaused = 1", "paused is true or false"),
        (HEAD + "[[queue]]\nname = 'A'\nmemory_limit_bytes = true", "memory_limit_bytes is a whole number"),
        (HEAD + "[[connector]]\nname = 'A'\nsettings = {a = 1}", "settings is a table of texts"),
        (HEAD + "[[connector]]\nname = 'A'\nleft_out = [1]", "left_out is a list of texts"),
        (HEAD + "[[queue]]\nname = 'A'\n[[queue]]\nname = 'A'", "number 2: queue A stands there twice"),
        (HEAD + "[[queue]]\nname = 'A'\nmemory_limit_bytes = -5", "memory_limit_bytes is from -1 to"),
        (HEAD + f"[[queue]]\nname = 'A'\nmemory_limit_bytes = 0x{'f' * 6_000}", "memory_limit_bytes is from -1 to"),
        (HEAD + f"a{'.a' * 10_000} = 1", "a name has more than"),
        (HEAD + "[limits]\nx = { a" + ' . "b#"' * 10_000 + " = 1 }", "a name has more than"),
        (HEAD + "[limits]\nmemory = 1", "[limits]: there is no 'memory'"),
    ],
)
def test_a_fault_is_one_line_with_its_place(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        from_toml(text.encode(), "a.toml")
    assert str(caught.value).startswith("a.toml: ") and message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_in_another_encoding_or_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="not in UTF-8"):
        from_toml(HEAD.encode() + b"\xff", "a.toml")
    monkeypatch.setattr("spanwire.management.definitions.document.MAX_BYTES", 10)
    with pytest.raises(ConfigurationError, match="larger than 10 bytes"):
        from_toml(HEAD.encode(), "a.toml")


def test_a_configuration_is_no_document() -> None:
    assert not is_document(b"[broker]\nbroker_name = 'b'") and not is_document(b"<broker/>")


def test_limits_are_those_that_a_document_says() -> None:
    document = from_toml((HEAD + "[limits]\nmemory_limit_bytes = 5").encode(), "a.toml")
    assert document.of(LIMITS) == [((), {"memory_limit_bytes": 5})]
    assert SETTINGS in KINDS["connector"].defaults


def test_dots_in_texts_and_comments_are_no_parts_of_names() -> None:
    name = "a." * 100 + "b"
    text = f'# it\'s {name}\n[[queue]]\nname = \'{name}\'\n[[topic]]\nname = """\n"{name}""""\n'
    found = from_toml((HEAD + text).encode(), "a.toml")
    assert [key for _, (key,) in found.items] == [name, f'"{name}"']


@pytest.mark.parametrize(
    "text", ["a" * 1_000_000, '\\"' * 500_000, "''" * 500_000, "a. " * 10 + " " * 1_000_000, '"' * 999_999]
)
def test_a_broken_document_takes_no_long_time(text: str) -> None:
    """Each would take minutes with a search that begins anew at each character."""
    with pytest.raises(ConfigurationError):
        from_toml((HEAD + text).encode(), "a.toml")
