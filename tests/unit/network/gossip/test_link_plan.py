"""Which links a connector opens and ends, with time, members and links passed in."""

from __future__ import annotations

from collections.abc import Mapping

from spanwire.discovery.addresses.reconnect import ReconnectSettings
from spanwire.discovery.groups.gossip_settings import GossipSettings
from spanwire.network.gossip.kept_members import Linked
from spanwire.network.gossip.link_plan import BARRED_S, FORMER_S, GRACE_S, MAX_REMEMBERED, LinkPlan, Seen

B, C = "tcp://10.0.0.2:61616", "tcp://10.0.0.3:61616"
ALLOWED = ("10.0.0.0/24",)
RETRY = ReconnectSettings(initial_delay_ms=1_000, exponential=False)


class Links:
    """A listener that keeps what it is asked for."""

    def __init__(self) -> None:
        self.open: list[str] = []
        self.said: list[str] = []

    def on_found(self, uri: str) -> None:
        self.open.append(uri)
        self.said.append(f"+{uri}")

    def on_lost(self, uri: str) -> None:
        self.open.remove(uri)
        self.said.append(f"-{uri}")


class Scene:
    def __init__(self, own: str = "a", *, duplex: bool = False, limit: int = 20) -> None:
        self.links = Links()
        self.plan = LinkPlan(own, GossipSettings(ALLOWED, limit), duplex, RETRY, self.links)

    def tick(self, now: float, members: Mapping[str, tuple[str, ...]], seen: Seen | None = None) -> list[str]:
        self.plan.tick(now, members, seen or Seen())
        return self.links.open

    def linked(self, now: float) -> dict[str, str]:
        return {name: one.uri for name, one in self.plan.linked(now).items()}

    def fails(self, uri: str, now: float, uptime_s: float = 0.0) -> None:
        self.links.open.remove(uri)
        self.plan.on_failure(uri, uptime_s, now)


def test_a_member_is_linked_once() -> None:
    scene = Scene()
    assert scene.tick(0, {"b": (B, "tcp://10.0.0.2:61617")}) == [B]
    assert scene.tick(1, {"b": (B, "tcp://10.0.0.2:61617")}) == [B]


def test_two_members_at_one_address_have_one_link() -> None:
    assert Scene().tick(0, {"b": (B,), "c": (B,)}) == [B]


def test_a_seed_that_runs_needs_no_other_link() -> None:
    scene = Scene()
    assert scene.tick(0, {"b": (B,)}) == [B]
    assert scene.tick(1, {"b": (B,)}, Seen({B: "b"}, frozenset({"b"}))) == []


def test_its_own_name_is_never_linked() -> None:
    assert Scene().tick(0, {"a": (B,)}) == []


def test_s37_an_address_outside_of_the_networks_is_never_linked() -> None:
    scene = Scene()
    evil = ("tcp://169.254.169.254:80", "tcp://192.168.0.1:22", "tcp://localhost:6379", "tcp://2130706433:6379")
    assert scene.tick(0, {"b": evil}) == []
    assert scene.tick(60, {"b": (*evil, B)}) == [B]
    for second in range(61, 200):
        if B in scene.links.open:
            scene.fails(B, second)
        scene.tick(second, {"b": (*evil, B)})
    assert set(scene.links.said) == {f"+{B}"}


def test_s37_a_broker_of_another_name_is_not_kept_and_not_asked_again_soon() -> None:
    scene = Scene()
    scene.tick(0, {"b": (B,)})
    assert scene.tick(1, {"b": (B,)}, Seen({B: "other"})) == []
    assert scene.tick(1 + BARRED_S / 2, {"b": (B,)}) == []
    assert scene.tick(2 + BARRED_S, {"b": (B,)}) == [B]


def test_a_liar_about_an_address_does_not_end_a_link_that_runs() -> None:
    scene = Scene()
    scene.tick(0, {"b": (B,)})
    scene.tick(1, {"b": (B,)}, Seen({B: "b"}))
    assert scene.tick(2, {"b": (C,)}, Seen({B: "b"})) == [B]
    scene.fails(B, 10, uptime_s=9.0)
    scene.tick(12, {"b": (C,)})
    assert scene.links.open == [C]


def test_a_failed_address_gives_its_turn_to_the_next_one_after_a_pause() -> None:
    scene = Scene()
    scene.tick(0, {"b": (B, C)})
    scene.fails(B, 0.5)
    assert scene.tick(1, {"b": (B, C)}) == []
    assert scene.tick(2, {"b": (B, C)}) == [C]


def test_a_member_that_was_linked_is_tried_for_a_day_though_nobody_tells_of_it() -> None:
    scene = Scene()
    scene.tick(0, {"b": (B,)})
    scene.tick(1, {"b": (B,)}, Seen({B: "b"}))
    scene.fails(B, 2)
    assert scene.tick(100, {}) == [B]
    scene.fails(B, 101)
    assert scene.tick(FORMER_S + 100, {}) == []


def test_a_member_of_the_last_run_is_tried_for_a_day_and_linked_by_its_name_alone() -> None:
    scene = Scene()
    scene.plan.recall({"b": Linked(B, 0.0), "c": Linked(C, 0.0)}, 0)
    assert scene.tick(0, {}) == [B, C]
    assert scene.tick(1, {}, Seen({B: "b", C: "another"})) == [B]
    assert scene.linked(1) == {"b": B, "c": C}
    for second in range(2, 30):
        assert scene.tick(second, {}, Seen({B: "b"})) == [B]  # and C is left alone
    assert scene.tick(2 + BARRED_S, {}, Seen({B: "b"})) == [B, C]
    scene.fails(C, 3 + BARRED_S)
    assert scene.tick(FORMER_S + 100, {}, Seen({B: "b"})) == [B]
    assert scene.linked(FORMER_S + 100) == {"b": B}


def test_a_member_that_is_gone_is_forgotten_a_day_after_its_link_however_often_the_broker_starts() -> None:
    kept = {"b": Linked(B, 0.0), "c": Linked(C, 0.0)}
    for hour in range(25):
        scene = Scene()
        scene.plan.recall(kept, 0)
        scene.tick(0, {})
        scene.tick(3_600, {}, Seen({C: "c"}))
        kept = scene.plan.linked(3_600)
        assert set(kept) == ({"b", "c"} if hour < 24 else {"c"})
        assert kept["c"].age_s == 0


def test_s37_members_that_come_and_go_are_not_all_remembered() -> None:
    scene = Scene()
    for number in range(MAX_REMEMBERED + 200):
        uri = f"tcp://10.0.0.2:{1_000 + number}"
        scene.tick(number, {f"x{number}": (uri,)})
        scene.tick(number + 0.5, {f"x{number}": (uri,)}, Seen({uri: f"x{number}"}))
    found = scene.plan.linked(MAX_REMEMBERED + 200)
    assert MAX_REMEMBERED <= len(found) <= MAX_REMEMBERED + 100
    assert next(iter(found)) == f"x{MAX_REMEMBERED + 199}"
    assert "x0" not in found


def test_s37_a_kept_address_outside_of_the_networks_is_never_linked_nor_one_of_the_own_name() -> None:
    scene = Scene()
    kept = {"b": "tcp://169.254.169.254:80", "c": "tcp://localhost:6379", "a": B, "d": C}
    scene.plan.recall({name: Linked(uri, 0.0) for name, uri in kept.items()}, 0)
    assert scene.tick(0, {}) == [C]
    assert scene.linked(0) == {"d": C}


def test_a_member_with_a_duplex_link_of_its_own_is_known_at_the_next_start() -> None:
    scene = Scene("c", duplex=True)
    assert scene.tick(0, {"b": (B,)}, Seen(accepted=frozenset({"b", "stranger"}))) == []
    assert scene.linked(0) == {"b": B}


def test_a_member_that_was_never_linked_is_forgotten_with_the_last_word_of_it() -> None:
    scene = Scene()
    scene.tick(0, {"b": (B,)})
    assert scene.tick(1, {}) == []


def test_s37_the_links_are_bounded_whoever_is_invented() -> None:
    scene = Scene(limit=5)
    invented = {f"x{number}": (f"tcp://10.0.0.{number % 250}:{1000 + number}",) for number in range(1_000)}
    assert len(scene.tick(0, invented)) <= 5


def test_of_a_duplex_pair_the_lesser_name_links_and_the_other_one_only_if_that_does_not_come() -> None:
    lesser, greater = Scene("a", duplex=True), Scene("c", duplex=True)
    assert lesser.tick(0, {"b": (B,)}) == [B]
    assert greater.tick(0, {"b": (B,)}) == []
    assert greater.tick(GRACE_S, {"b": (B,)}) == [B]
    assert greater.tick(GRACE_S + 1, {"b": (B,)}, Seen({B: "b"}, accepted=frozenset({"b"}))) == []


def test_a_duplex_link_of_the_greater_name_is_enough() -> None:
    scene = Scene("a", duplex=True)
    assert scene.tick(0, {"b": (B,)}, Seen(accepted=frozenset({"b"}))) == []


def test_a_seed_makes_way_for_the_link_of_the_lesser_name_alone() -> None:
    plan = Scene("b", duplex=True).plan
    assert plan.is_served("a", Seen(accepted=frozenset({"a"})))
    assert not plan.is_served("c", Seen(accepted=frozenset({"c"})))
    assert not Scene("b").plan.is_served("a", Seen(accepted=frozenset({"a"})))


def test_the_name_of_a_member_that_is_not_reached_is_known_from_others_and_from_the_last_run() -> None:
    scene = Scene()
    assert scene.plan.name_of(B) == ""
    scene.tick(0, {"b": (B, "tcp://10.0.0.2:61617")})
    assert scene.plan.name_of("tcp://10.0.0.2:61617") == "b"
    scene.fails(B, 1)
    assert (scene.plan.name_of(B), scene.plan.name_of(C)) == ("b", "")
    again = Scene()
    again.plan.recall({"c": Linked(C, 5.0)}, 0)
    assert again.plan.name_of(C) == "c"


def test_an_address_of_which_two_members_tell_has_the_name_of_the_linked_one() -> None:
    scene = Scene()
    scene.tick(0, {"b": (B,), "c": (B,)})
    linked = scene.plan.name_of(B)
    assert linked in ("b", "c")
    scene.fails(B, 1)
    assert scene.plan.name_of(B) == ""
