"""A missing peer skips its tests, or fails them where all peers must be there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import peers


def test_a_missing_peer_skips_the_test_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REQUIRE_PEERS", raising=False)
    with pytest.raises(pytest.skip.Exception, match="peer java is missing: no java on the path"):
        peers.require("java", answers={"java": "peer java is missing: no java on the path"})


def test_a_missing_peer_fails_the_test_where_peers_are_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQUIRE_PEERS", "1")
    with pytest.raises(pytest.fail.Exception, match="peer java is missing"):
        peers.require("java", answers={"java": "peer java is missing: no java on the path"})


def test_peers_that_are_here_let_the_test_go_on() -> None:
    peers.require("java", "strace", answers={"java": None, "strace": None})


def test_every_peer_can_be_asked_for_and_answers_in_one_line() -> None:
    for peer in peers.PEERS:
        assert "\n" not in (peers.missing(peer) or "")


def test_the_class_path_begins_with_what_the_caller_adds() -> None:
    path = peers.activemq_classpath(Path("/somewhere/classes")).split(":")
    assert path[0] == "/somewhere/classes"
    assert any("activemq-client" in jar for jar in path)


@pytest.mark.parametrize(("peer", "status"), [("s3", 0), ("stomp.py", 0), ("java", 1)])
def test_what_the_environments_bring_is_not_missing_before_they_are_made(
    peer: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUIRE_PEERS", "1")
    monkeypatch.setattr(peers, "_answers", {name: "missing" if name == peer else None for name in peers.PEERS})
    assert peers.main(["--missing"]) == status
