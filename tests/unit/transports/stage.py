"""A stage for transport tests: a loop that is stepped by hand, a clock, sockets and connections that remember."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from spanwire.model.environment import Time


class FakeTimer:
    """What `call_later` gives."""

    def __init__(self, due: float, callback: Callable[[], object]) -> None:
        self.due = due
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class FakeLoop:
    """Runs callbacks when told; its clock only moves by `advance`."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.wall_ms = 1_700_000_000_000
        self._ready: list[Callable[[], object]] = []
        self.timers: list[FakeTimer] = []

    def now(self) -> Time:
        return Time(self.time, self.wall_ms)

    def call_soon(self, callback: Callable[[], object]) -> object:
        self._ready.append(callback)
        return None

    def call_later(self, delay: float, callback: Callable[[], object]) -> FakeTimer:
        timer = FakeTimer(self.time + delay, callback)
        self.timers.append(timer)
        return timer

    def turn(self) -> int:
        """One turn: what is ready now, not what becomes ready by it. Gives how many callbacks ran."""
        ready, self._ready = self._ready, []
        for callback in ready:
            callback()
        return len(ready)

    def settle(self, turns: int = 50) -> None:
        """Turns until nothing is ready."""
        for _ in range(turns):
            if not self.turn():
                return
        raise AssertionError("the loop does not come to rest")

    def advance(self, seconds: float) -> None:
        """Time passes; timers run in order, each followed by the turns it caused."""
        end = self.time + seconds
        while True:
            due = [timer for timer in self.timers if not timer.cancelled and timer.due <= end]
            if not due:
                break
            timer = min(due, key=lambda candidate: candidate.due)
            self.timers.remove(timer)
            self.time = max(self.time, timer.due)
            timer.callback()
            self.settle()
        self.time = end


class FakeBroker:
    """Hands out what the test put in."""

    def __init__(self) -> None:
        self.dirty: list[object] = []
        self.awaiting: set[object] = set()
        self.due: float | None = None
        self.runs: list[float] = []
        self.journal: list[str] = []
        self.fails = False
        self.behind = False

    def is_behind(self) -> bool:
        return self.behind

    def awaits_login(self, connection: object) -> bool:
        return connection in self.awaiting

    def take_dirty(self) -> list[object]:
        taken, self.dirty = self.dirty, []
        return taken

    def next_timeout(self) -> float | None:
        return self.due

    def run(self, now: Time) -> None:
        self.runs.append(now.monotonic)
        if self.fails:
            raise RuntimeError("planted")
        self.due = None


class FakeStore:
    """Remembers its turns in the broker's journal of events."""

    def __init__(self, events: list[str]) -> None:
        self.events = events
        self.deadline: float | None = None
        self.active: list[int] = []

    def turn(self, now: float, active: int) -> None:
        self.active.append(active)
        if self.deadline is not None and now < self.deadline:
            self.events.append("wait")
        else:
            self.events.append("hand over")
            self.deadline = None

    def next_deadline(self) -> float | None:
        return self.deadline


class FakeSocket:
    """An asyncio transport without a socket. ``room`` bytes go to the kernel at once."""

    def __init__(self, events: list[str] | None = None, peer: tuple[str, int] | None = ("127.0.0.1", 5000)) -> None:
        self.events = events if events is not None else []
        self.peer = peer
        self.writes: list[bytes] = []
        self.room = 1 << 30
        self.buffered = 0
        self.reading = True
        self.closing = False
        self.aborted = False
        self.ended = False  # the peer was told that nothing follows
        self.high: int | None = None

    @property
    def written(self) -> bytes:
        return b"".join(self.writes)

    def get_extra_info(self, name: str) -> object:
        return self.peer if name == "peername" else None

    def set_write_buffer_limits(self, high: int | None = None) -> None:
        self.high = high

    def get_write_buffer_size(self) -> int:
        return self.buffered

    def write(self, data: bytes) -> None:
        self.events.append("write")
        self.writes.append(data)
        taken = min(self.room, len(data))
        self.room -= taken
        self.buffered += len(data) - taken

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.ended = True

    def close(self) -> None:
        self.closing = True

    def abort(self) -> None:
        self.aborted = True


class FakeConnection:
    """A protocol connection that says and wants what the test tells it."""

    def __init__(self) -> None:
        self.received: list[bytes] = []
        self.to_send: list[bytes] = []
        self.unsent_reports: list[int] = []
        self.eofs = 0
        self.held: deque[bytes] = deque()  # requests that wait for the next turn
        self.wants_read = True
        self.closed = False
        self.pending_bytes = 0
        self.due: float | None = None
        self.timeouts: list[float] = []
        self.on_receive: Callable[[bytes], None] | None = None
        self.on_send: Callable[[], None] | None = None
        self.on_unsent: Callable[[int], None] | None = None

    def receive_data(self, data: bytes, now: Time) -> None:
        self.received.append(data)
        if self.on_receive is not None:
            self.on_receive(data)

    @property
    def holds_requests(self) -> bool:
        return len(self.held) > 0

    def go_on(self, now: Time) -> None:
        self.received.append(self.held.popleft())

    def receive_eof(self, now: Time) -> None:
        self.eofs += 1

    def data_to_send(self) -> list[bytes]:
        if self.on_send is not None:
            self.on_send()
        taken, self.to_send = self.to_send, []
        return taken

    def unsent(self, count: int) -> None:
        self.unsent_reports.append(count)
        if self.on_unsent is not None:
            self.on_unsent(count)

    def next_timeout(self) -> float | None:
        return self.due

    def handle_timeout(self, now: Time) -> None:
        self.timeouts.append(now.monotonic)
        self.due = None
