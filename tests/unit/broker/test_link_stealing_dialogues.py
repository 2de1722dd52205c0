"""A client id moves to the newest connection where the connector allows it (``allowLinkStealing``)."""

from __future__ import annotations

import pytest

from spanwire.model.errors import InvalidClientIdError
from spanwire.model.info import ConnectionInfo
from tests.support.dialogue.broker_dialogue import Peer, Stage

QUEUE = "queue://Q"


def thief(stage: Stage, name: str, user: str | None = None, client_id: str = "dup") -> Peer:
    """A connection whose connector lets it take a client id over."""
    info = ConnectionInfo(f"ID:{name}:1", client_id, user, remote_address=f"tcp://{name}:1", steals_links=True)
    return Peer(stage, name, info)


def test_the_newest_connection_has_the_client_id_and_the_older_one_is_closed() -> None:
    stage = Stage()
    old = thief(stage, "a")
    listener = old.consumes(QUEUE)
    stage.peer("p").sends(QUEUE, "m")
    assert listener.takes() == ["m"]
    new = thief(stage, "b")
    assert old.closed_with is not None
    assert old.state.removed
    assert [view.client_id for view in stage.broker.connection_views() if view.client_id == "dup"] == ["dup"]
    assert new.consumes(QUEUE).redelivery_counts() == [("m", 1)]


def test_a_durable_subscription_moves_with_its_client_id() -> None:
    stage = Stage()
    thief(stage, "a").consumes("topic://T", durable="s")
    listener = thief(stage, "b").consumes("topic://T", durable="s")
    stage.peer("p").sends("topic://T", "m")
    assert listener.takes() == ["m"]


def test_the_connector_of_the_newest_connection_decides() -> None:
    stage = Stage()
    holder = thief(stage, "a")
    with pytest.raises(InvalidClientIdError, match="already connected from tcp://a:1"):
        stage.peer("b", client_id="dup")
    assert holder.closed_with is None
    stage.peer("c", client_id="other")
    thief(stage, "d", client_id="other")
    assert stage.broker.statistics().connections == 2


def test_another_user_s_client_id_is_not_taken() -> None:
    stage = Stage()
    holder = thief(stage, "a", user="alice")
    with pytest.raises(InvalidClientIdError, match="already connected"):
        thief(stage, "b", user="bob")
    assert holder.closed_with is None
    holder.sends(QUEUE, "still here")


def test_an_open_transaction_of_the_older_connection_is_rolled_back() -> None:
    stage = Stage()
    old = thief(stage, "a")
    old.begins(1)
    old.sends(QUEUE, "never", transaction=1)
    new = thief(stage, "b")
    assert new.consumes(QUEUE).takes() == []
