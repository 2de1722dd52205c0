"""Large frames of many connections within one small budget, against sockets that a test lets send."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spanwire.model.environment import Time
from spanwire.transports.admission import ReceiveBudget
from spanwire.transports.base import Flushable
from spanwire.transports.rationing import BEHIND_SECONDS, STALL_BYTES, STALL_SECONDS, STALLED, TOO_MANY, Rationing

READ_ON = 20
STEPS = ("send", "arrive late", "park", "go on", "leave", "time", "behind", "caught up")


class Sender:
    """A socket whose peer sends frames of ``size`` bytes, as far as it is read."""

    def __init__(self, stage: Stage, size: int) -> None:
        self.touched = False
        self.stage = stage
        self.size = size
        self.pending = 0
        self.frames = 0
        self.wants = True
        self.held_back = False
        self.reason = ""
        stage.sockets[self] = self

    def sends(self, count: int) -> None:
        """So many bytes arrive, unless nobody reads them."""
        if not self.held_back and not self.reason and self.wants:
            self.receives(count)

    def receives(self, count: int) -> None:
        """So many bytes arrive that were read from the socket before it was held back."""
        whole, self.pending = divmod(self.pending + count, self.size)
        self.frames += whole
        self.stage.rationing.update_pending(self, self.pending, self.stage.now())

    def wants_read(self) -> bool:
        return self.wants

    def note_activity(self) -> None:
        return None

    def stop_reading(self) -> None: ...

    def set_throttled(self, held_back: bool) -> None:
        assert held_back != self.held_back
        self.held_back = held_back

    def give_up(self, reason: str, now: Time) -> None:
        assert not self.reason
        self.reason = reason
        del self.stage.sockets[self]

    def flush(self, now: Time) -> None: ...

    def sweep(self, now: Time) -> None: ...

    def close(self, now: Time) -> None: ...


class Stage:
    """One budget and a clock."""

    def __init__(self, limit: int) -> None:
        self.seconds = 0.0
        self.sockets: dict[object, Flushable] = {}
        self.budget = ReceiveBudget(limit)
        self.rationing = Rationing(self.budget, self.sockets, READ_ON)

    def now(self) -> Time:
        return Time(self.seconds, 0)

    def passes(self, seconds: float) -> None:
        self.seconds += seconds
        self.rationing.check_progress(self.now())


def test_twenty_large_frames_come_in_through_a_budget_of_two_and_a_half() -> None:
    stage = Stage(250 * 10)
    senders = [Sender(stage, 100 * 10) for _ in range(20)]
    most = 0
    for _ in range(400):
        for sender in senders:
            sender.sends(50)
        most = max(most, stage.budget.used_bytes)
    assert min(sender.frames for sender in senders) >= 1
    assert all(not sender.reason for sender in senders)
    assert most <= (250 + 100) * 10 + len(senders) * READ_ON


def test_while_the_disk_is_behind_nobody_completes_a_large_frame() -> None:
    stage = Stage(250 * 10)
    senders = [Sender(stage, 100 * 10) for _ in range(20)]
    small = Sender(stage, READ_ON - 1)
    for sender in senders[:19]:
        sender.sends(100)
    done = sum(sender.frames for sender in senders)
    stage.rationing.set_disk_behind(True, stage.now())
    for _ in range(50):
        senders[19].sends(READ_ON + 1)
        for sender in senders:
            sender.sends(100)
        small.sends(READ_ON - 1)
    assert sum(sender.frames for sender in senders) == done
    assert small.frames == 50
    stage.rationing.set_disk_behind(False, stage.now())
    for _ in range(400):
        for sender in senders:
            sender.sends(50)
    assert min(sender.frames for sender in senders) >= 1
    assert all(not sender.reason for sender in senders)


def test_a_disk_that_does_not_catch_up_stops_nobody_for_ever() -> None:
    stage = Stage(250 * 10)
    sender = Sender(stage, 100 * 10)
    sender.sends(500)
    stage.rationing.set_disk_behind(True, stage.now())
    stage.passes(BEHIND_SECONDS - 1)
    assert sender.held_back
    stage.passes(2)
    sender.sends(500)
    assert sender.frames == 1
    sender.sends(500)
    stage.rationing.set_disk_behind(True, stage.now())
    assert not sender.held_back
    stage.rationing.set_disk_behind(False, stage.now())
    stage.rationing.set_disk_behind(True, stage.now())
    assert sender.held_back


def test_when_the_disk_has_caught_up_one_at_a_time_reads_over_the_budget() -> None:
    stage = Stage(250 * 10)
    senders = [Sender(stage, 100 * 10) for _ in range(20)]
    for sender in senders:
        sender.sends(READ_ON)
    for _ in range(6):
        for sender in senders:
            sender.sends(20)
    assert stage.budget.is_exceeded()
    stage.rationing.set_disk_behind(True, stage.now())
    assert all(sender.held_back for sender in senders)
    stage.rationing.set_disk_behind(False, stage.now())
    assert [sender.held_back for sender in senders].count(False) == 1
    most = 0
    for _ in range(400):
        for sender in senders:
            sender.sends(100)
        most = max(most, stage.budget.used_bytes)
    assert min(sender.frames for sender in senders) >= 1
    assert all(not sender.reason for sender in senders)
    assert most <= (250 + 100) * 10 + len(senders) * (READ_ON + 100)


def test_the_one_that_reads_over_the_budget_is_not_given_up_while_the_disk_is_behind() -> None:
    stage = Stage(250 * 10)
    senders = [Sender(stage, 1_000 * 10) for _ in range(20)]
    for _ in range(70):
        for sender in senders:
            sender.sends(100)
    first = max(senders, key=lambda sender: sender.pending)
    assert first.pending > 2 * 250 * 10
    stage.rationing.set_disk_behind(True, stage.now())
    assert first.held_back
    small = Sender(stage, 1_000)
    small.sends(READ_ON - 1)
    stage.passes(BEHIND_SECONDS - 1)
    stage.rationing.set_disk_behind(False, stage.now())
    assert not first.held_back
    stage.passes(STALL_SECONDS - 1)
    first.sends(100)
    assert all(not sender.reason for sender in senders)


def test_one_that_leaves_while_the_disk_is_behind_is_forgotten() -> None:
    stage = Stage(250 * 10)
    sender = Sender(stage, 100 * 10)
    sender.sends(500)
    stage.rationing.set_disk_behind(True, stage.now())
    del stage.sockets[sender]
    stage.rationing.update_pending(sender, 0, stage.now())
    stage.rationing.set_disk_behind(False, stage.now())
    assert stage.budget.used_bytes == 0


def test_who_holds_little_of_a_frame_is_read_on() -> None:
    stage = Stage(100)
    large, small = Sender(stage, 1000), Sender(stage, 1000)
    large.sends(150)
    small.sends(READ_ON - 1)
    assert not small.held_back
    small.sends(1)
    assert small.held_back


def test_one_that_sends_no_more_goes_and_the_next_is_read() -> None:
    stage = Stage(100)
    stalled, waiting, other = Sender(stage, 1000), Sender(stage, 1000), Sender(stage, 1000)
    stalled.sends(90)
    waiting.sends(80)
    other.sends(70)
    assert (stalled.held_back, waiting.held_back, other.held_back) == (False, True, True)
    assert not other.reason
    stage.passes(STALL_SECONDS - 0.1)
    assert not stalled.reason
    stage.passes(0.2)
    assert {stalled.reason} == {STALLED}
    assert (waiting.held_back, other.held_back) == (False, True)
    waiting.sends(920)
    assert waiting.frames == 1
    assert not other.held_back


def test_one_that_goes_on_may_take_its_time() -> None:
    stage = Stage(100)
    slow, waiting = Sender(stage, 100 * STALL_BYTES), Sender(stage, 1000)
    slow.sends(90)
    waiting.sends(80)
    for _ in range(20):
        stage.passes(STALL_SECONDS * 0.6)
        slow.sends(STALL_BYTES)
    assert not slow.reason


def test_one_that_the_broker_itself_lets_wait_is_not_blamed_but_another_is_read() -> None:
    stage = Stage(100)
    parked, waiting = Sender(stage, 1000), Sender(stage, 1000)
    parked.sends(90)
    waiting.sends(80)
    parked.wants = False
    stage.passes(STALL_SECONDS + 1)
    assert not parked.reason
    assert parked.held_back
    assert not waiting.held_back
    waiting.sends(920)
    assert not parked.held_back


def test_where_the_broker_reads_from_nobody_nobody_is_closed() -> None:
    stage = Stage(100)
    parked, waiting = Sender(stage, 1000), Sender(stage, 1000)
    parked.sends(90)
    waiting.sends(80)
    parked.wants = waiting.wants = False
    for _ in range(5):
        stage.passes(STALL_SECONDS + 1)
    assert not parked.reason
    assert not waiting.reason


def test_of_many_small_beginnings_that_fill_the_budget_the_largest_goes() -> None:
    stage = Stage(100)
    senders = [Sender(stage, 1000) for _ in range(20)]
    for sender in senders:
        sender.sends(READ_ON - 1)
    gone = [sender for sender in senders if sender.reason]
    assert gone
    assert {sender.reason for sender in gone} == {TOO_MANY}
    assert stage.budget.used_bytes <= 200 + READ_ON


def test_one_that_completes_its_frame_while_held_back_is_read_again() -> None:
    stage = Stage(100)
    first, waiting = Sender(stage, 1000), Sender(stage, 100)
    first.sends(90)
    waiting.sends(80)
    assert waiting.held_back
    waiting.receives(20)
    assert waiting.frames == 1
    assert not waiting.held_back


def test_one_that_begins_its_next_frame_while_held_back_is_read_again() -> None:
    stage = Stage(100)
    first, waiting = Sender(stage, 1000), Sender(stage, 100)
    first.sends(90)
    waiting.sends(80)
    waiting.receives(20 + READ_ON - 1)
    assert (waiting.pending, waiting.held_back) == (READ_ON - 1, False)
    waiting.sends(1)
    assert waiting.held_back


def test_one_held_back_that_the_broker_would_not_read_is_read_when_it_would() -> None:
    stage = Stage(100)
    first, waiting, other = Sender(stage, 1000), Sender(stage, 1000), Sender(stage, 1000)
    first.sends(90)
    waiting.sends(80)
    other.receives(80)
    waiting.wants = other.wants = False
    first.reason = "left"
    stage.rationing.update_pending(first, 0, stage.now())
    del stage.sockets[first]
    assert waiting.held_back
    assert other.held_back
    waiting.wants = other.wants = True
    stage.passes(0.0)
    assert sum(sender.held_back for sender in (waiting, other)) == 1


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 90)), min_size=10, max_size=80))
def test_whatever_order_bytes_arrive_in_who_is_below_its_share_is_read(arrivals: list[tuple[int, int]]) -> None:
    stage = Stage(100)
    senders = [Sender(stage, 100) for _ in range(4)]
    for number, count in arrivals:
        senders[number].receives(count)
        assert all(sender.pending >= READ_ON for sender in senders if sender.held_back)
        assert not all(sender.held_back for sender in senders)
        senders = [Sender(stage, 100) if sender.reason else sender for sender in senders]


@given(
    st.lists(st.integers(30, 300), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(0, 7), st.sampled_from(STEPS)), max_size=80),
    st.booleans(),
    st.sampled_from((50, 200)),
)
def test_whatever_happens_somebody_can_always_go_on(
    sizes: list[int], steps: list[tuple[int, str]], stays_behind: bool, limit: int
) -> None:
    stage = Stage(limit)
    senders = [Sender(stage, size) for size in sizes]
    is_behind = False
    for number, step in steps:
        sender = senders[number % len(senders)]
        if step in ("behind", "caught up"):
            is_behind = step == "behind"
        if step == "time":
            stage.passes(STALL_SECONDS)
        elif step in ("behind", "caught up"):
            stage.rationing.set_disk_behind(step == "behind", stage.now())
        elif sender.reason:
            continue
        elif step == "send":
            sender.sends(17)
        elif step == "arrive late":
            sender.receives(17)
        elif step == "leave":
            sender.reason = "left"
            del stage.sockets[sender]
            stage.rationing.update_pending(sender, 0, stage.now())
        else:
            sender.wants = step == "go on"
        assert is_behind or all(one.pending >= READ_ON for one in senders if one.held_back and not one.reason)
    for sender in senders:
        sender.wants = True
    if stays_behind:
        stage.rationing.set_disk_behind(True, stage.now())
        stage.passes(BEHIND_SECONDS)
    else:
        stage.rationing.set_disk_behind(False, stage.now())
    stage.passes(STALL_SECONDS)
    stage.passes(0.0)
    alive = [sender for sender in senders if not sender.reason]
    assert not alive or any(not sender.held_back for sender in alive)
    before = {sender: sender.frames for sender in alive}
    for _ in range(600):
        for sender in alive:
            sender.sends(17)
    assert all(sender.frames > before[sender] for sender in alive if not sender.reason)
    assert stage.budget.used_bytes <= 2 * limit + max(sizes)
