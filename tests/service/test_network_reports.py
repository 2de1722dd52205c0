"""The map of a network from one of its brokers: brokers behind the linked ones, with the login of the links."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from spanwire.management.control_client import ControlClient
from tests.service.started import TIMEOUT_S, Started

USERS: Final = """
  <plugins><simpleAuthenticationPlugin><users>
    <authenticationUser username="bridge" password="br-4711" groups="admins"/>
  </users></simpleAuthenticationPlugin></plugins>
"""


class Member(Started):
    """A broker of a chain, with users, and with a link to the next one."""

    def __init__(
        self, directory: Path, name: str, next_port: int | None, inside: str = USERS, *, duplex: bool = False
    ) -> None:
        super().__init__(directory)
        self._name: Final = name
        self._inside: Final = inside
        self._next: Final = next_port
        self._duplex: Final = "true" if duplex else "false"

    def text(self) -> str:
        link = ""
        if self._next is not None:
            link = (
                f'<networkConnectors><networkConnector name="from-{self._name}" networkTTL="3" userName="bridge" '
                f'password="br-4711" duplex="{self._duplex}" uri="static:(tcp://127.0.0.1:{self._next})"/>'
                "</networkConnectors>"
            )
        text = super().text().replace('"tested"', f'"{self._name}"')
        return text.replace("  <transportConnectors>", f"  {link}{self._inside}<transportConnectors>")


def told(broker: Started) -> dict[str, dict[str, object]]:
    """The brokers by name, as the map of a broker gets them."""
    answer = ControlClient(broker.data, TIMEOUT_S).ask("network")
    assert isinstance(answer, dict)
    return {str(row["name"]): row for row in answer["brokers"]}


def until(broker: Started, *names: str) -> dict[str, dict[str, object]]:
    """Look at the map until it has these brokers."""
    deadline = time.monotonic() + TIMEOUT_S
    while not set(names) <= set(rows := told(broker)):
        assert time.monotonic() < deadline, sorted(rows)
        time.sleep(0.2)
    return rows


def test_a_map_has_the_brokers_and_links_behind_the_linked_one(tmp_path: Path) -> None:
    with Member(tmp_path / "d", "d", None) as d:
        with Member(tmp_path / "c", "c", d.ports["tcp"]) as c, Member(tmp_path / "b", "b", c.ports["tcp"]) as b:
            with Member(tmp_path / "a", "a", b.ports["tcp"]) as a:
                rows = until(a, "a", "b", "c", "d")
                links = rows["c"]["links"]
                assert isinstance(links, list)
                assert [(link["name"], link["remote"], link["incoming"]) for link in links] == [
                    ("from-c", "d", False),
                    ("", "b", True),
                ]
                assert links[0]["state"] == "running"
                assert "br-4711" not in str(rows)
                own = told(d)["d"]["links"]  # d cannot ask c, which has opened the link between them
                assert isinstance(own, list)
                assert [(link["remote"], link["state"], link["incoming"]) for link in own] == [("c", "running", True)]
                d.kill()
                deadline = time.monotonic() + TIMEOUT_S
                while True:
                    links = told(a)["c"]["links"]
                    assert isinstance(links, list)
                    if links[0]["state"] != "running":
                        break
                    assert time.monotonic() < deadline
                    time.sleep(0.2)
                assert links[0]["reason"]


def test_a_hub_has_on_its_map_what_is_behind_brokers_that_have_opened_duplex_links_to_it(tmp_path: Path) -> None:
    with (
        Member(tmp_path / "hub", "hub", None) as hub,
        Member(tmp_path / "beyond", "beyond", None) as beyond,
        Member(tmp_path / "spoke", "spoke", hub.ports["tcp"], spoke_of(beyond), duplex=True),
        Member(tmp_path / "one-way", "one-way", hub.ports["tcp"]),
    ):
        rows = until(hub, "hub", "spoke", "beyond")
        links = rows["spoke"]["links"]
        assert isinstance(links, list)
        assert {(link["name"], link["remote"]) for link in links} >= {("from-spoke", "hub"), ("further", "beyond")}
        assert rows["spoke"]["silence"] == rows["beyond"]["silence"] == ""
        assert "br-4711" not in str(rows)
        own = rows["hub"]["links"]
        assert isinstance(own, list)
        assert ("one-way", True) in {(link["remote"], link.get("incoming")) for link in own}
        assert "one-way" not in rows  # which has permitted nothing by its link of one way


def spoke_of(beyond: Started) -> str:
    """Users, and a second connector of one way."""
    return (
        f'<networkConnectors><networkConnector name="further" userName="bridge" password="br-4711" '
        f'uri="static:({beyond.broker_url})"/></networkConnectors>{USERS}'
    )
