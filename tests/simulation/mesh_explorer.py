"""Every order of events of a mesh, played broker by broker.

What a broker does about an event depends on that broker alone: on its state and on the frame that arrives. So each step
of a broker is played once, in a mesh of real brokers, and its result is used wherever the same broker, in the same
state, gets the same frame. Meshes of three brokers have many thousands of states, but each of their brokers has some
hundred.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

from spanwire.network.bridge.forwarder import Forwarder
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.codec import FrameDecoder
from spanwire.protocols.openwire.codec.wire_format import WireFormat
from spanwire.protocols.openwire.messages.identities import consumer_id_of
from tests.simulation.mesh_world import BACK, FORTH, LINK, SEND, Event, MeshLink, MeshWorld
from tests.support.network_dialogue import Site

DOWN = 0  # the wire of a link that is not up
EMPTY = 1  # a wire without frames

Value = TypeVar("Value", bound=Hashable)
Frame = tuple[object, ...]  # the kind of a frame, then what it says
State = tuple[int, ...]  # of a mesh: the state of each broker, the frames on each wire, the messages left to send


class Outcome:
    """What came of the messages at one broker: a part of its state."""

    def __init__(self, site: Site, world: MeshWorld) -> None:
        inbox = world.inboxes.get(site.name)
        self.name = site.name
        self.texts = () if inbox is None else tuple(inbox.texts)
        self.promised = tuple(world.promised) if site is world.sites[0] else ()
        routes: list[tuple[str, int]] = []  # to each consumer elsewhere
        for name, one in world.inboxes.items():
            if name != site.name:
                demands = site.routes._serving.get(str(one.info.consumer_id), {})
                routes.append((name, len({id(demand.bridge) for demand in demands})))
        self.routes = tuple(routes)


class Names:
    """The parts of a mesh that decide what can happen, with ids that do not depend on the order of events."""

    def __init__(self, world: MeshWorld) -> None:
        self._world = world
        self._labels: list[tuple[str, str]] = []
        for place, link in enumerate(world.links):
            bridge = link.bridge
            if bridge is not None and bridge.forwarder is not None:
                self._labels.append((bridge.forwarder.local.client.connection_id, f"near{place}"))
                self._labels.append((bridge.remote._connection_id, f"far{place}"))

    def site(self, site: Site, is_quiet: bool) -> tuple[object, ...]:
        """Two states of a broker with the same name have the same future. With ``is_quiet`` no broker will hear of
        another consumer: nothing that is known of consumers matters but the subscriptions that were made for them.
        """
        outcome = Outcome(site, self._world)
        broker = site.broker
        lines = [
            (self._id(key), durable.active, durable.queue.waiting(), durable.queue.in_flight)
            for key, durable in broker.assembly.map.durables.items()
        ]
        copies = [
            (str(producer), topic, sorted((hops, window.encoded()) for hops, window in source.windows.items()))
            for (producer, topic), source in broker.assembly.producer_audit.copies._sources.items()
        ]
        consumers: list[str] = []
        if self._may_be_asked(site):  # in the order in which a link that comes up is told of them
            for state in broker.assembly.connections.all():
                consumers.extend(self._id(consumer) for consumer in state.consumers)
        links = [self._link(link, site, is_quiet) for link in self._world.links if site in (link.near, link.far)]
        seen = (outcome.texts, outcome.promised, outcome.routes)
        return (is_quiet, seen, sorted(lines), repr(sorted(copies)), consumers, links)

    def _link(self, link: MeshLink, site: Site, is_quiet: bool) -> object:
        bridge = link.bridge
        if bridge is None or bridge.forwarder is None or site is not link.near:
            return bridge is not None
        forwarder = bridge.forwarder
        demands = []
        for demand in forwarder.local.demand.subscriptions:
            info = demand.info
            out = [(entry.message_id.sequence, entry.is_confirmed) for entry in demand.in_flight]
            parts: list[object] = [info.subscription_name or "", demand.is_ending, demand.is_standing, out]
            if not is_quiet:
                parts.append(info.priority)
                behind = demand.consumers.values()
                parts.append(sorted([str(one.priority), *map(self._id, one.aliases())] for one in behind))
            if self._may_be_asked(site):
                parts.append((info.broker_path, [self._id(str(one)) for one in info.network_consumer_path]))
            demands.append(repr(parts))
        if is_quiet:
            return sorted(demands)
        over = link.near.routes._passed_over.get(forwarder, {})
        return (sorted(demands), sorted(self._id(key) for key in over))

    def _may_be_asked(self, site: Site) -> bool:
        """Return True if a link to this broker may still come up, which is told of all consumers."""
        return any(link.far is site and link.bridge is None for link in self._world.links)

    def frame(self, place: int, kind: str, data: bytes) -> Frame:
        """The frame that is on a wire of this link; the first value tells its kind."""
        command = decoded(data)
        if isinstance(command, wire.Message) and command.message_id is not None:
            path = tuple(one.value for one in command.broker_path or [])
            return ("message", command.message_id.producer_sequence_id, command.redelivery_counter, path)
        bridge = self._world.links[place].bridge
        assert bridge is not None and bridge.forwarder is not None
        if isinstance(command, wire.Response):
            return ("answer", answered(bridge.forwarder, command))
        if kind == BACK and isinstance(command, wire.MessageDispatch) and command.message is not None:
            return self._advisory(command.message)
        return (type(command).__name__,)

    def _advisory(self, message: wire.Message) -> Frame:
        subject = message.data_structure
        if isinstance(subject, wire.ConsumerInfo):
            path = tuple(one.value for one in subject.broker_path or [])
            behind = tuple(self._id(str(consumer_id_of(one))) for one in subject.network_consumer_path or [])
            return ("consumer", self._id(str(consumer_id_of(subject.consumer_id))), path, behind,
                    subject.subscription_name, subject.priority)  # fmt: skip
        if isinstance(subject, wire.RemoveInfo) and isinstance(subject.object_id, wire.ConsumerId):
            return ("gone", self._id(str(consumer_id_of(subject.object_id))))
        return (type(subject).__name__,)

    def _id(self, text: str) -> str:
        for old, new in self._labels:
            text = text.replace(old, new)
        return text


def answered(forwarder: Forwarder, command: wire.Response) -> int | None:
    """Return the number of the message that this is the answer to."""
    sent = forwarder._unanswered.get(command.correlation_id)
    return None if sent is None else sent.message_id.sequence


def decoded(frame: bytes) -> wire.Command:
    """Return one frame of a connection without tight encoding and cache."""
    decoder = FrameDecoder(pass_messages=False)
    decoder.negotiated(WireFormat())
    decoder.authenticated()
    (command,) = decoder.feed(frame)
    return command


class Numbers(Generic[Value]):
    """Small numbers for values; the same for equal ones."""

    def __init__(self, *values: Value) -> None:
        self.values: list[Value] = list(values)
        self._numbers: dict[Value, int] = {value: number for number, value in enumerate(values)}

    def of(self, value: Value) -> int:
        """Return the number of ``value``."""
        number = self._numbers.setdefault(value, len(self.values))
        if number == len(self.values):
            self.values.append(value)
        return number


class Step:
    """The result of an event: the new states of its brokers, and the frames that were put on each wire."""

    def __init__(self, sites: list[tuple[int, int]], wires: list[tuple[int, tuple[int, ...]]]) -> None:
        self.sites = sites
        self.wires = wires


class Explorer:
    """Plays every order of events of the mesh that ``make`` makes; ``check`` looks at each end at which nothing is left
    to happen, and returns a fault or None.

    An answer to a message is taken as soon as it arrives, before anything else happens, for its place among other
    events changes nothing (a persistent set of one, Godefroid 1996): it ends the wait of one message at one
    subscription of a bridge, which nothing else reads; it makes no frame; and no other event can take it away or
    overtake it. With ``eager`` off it has its place in every order.
    """

    def __init__(
        self, make: Callable[[], MeshWorld], check: Callable[[list[Outcome]], str | None], eager: bool = True
    ) -> None:
        self._make = make
        self._check = check
        self._eager = eager
        self._world = make()
        self._played: list[Event] = []  # by `_world`
        self._sites = Numbers[str]()
        self._outcomes: dict[int, Outcome] = {}
        self._frames = Numbers[Frame]()
        self._wires = Numbers[tuple[int, ...] | None](None, ())  # `DOWN` and `EMPTY`
        self._quiet_sites: dict[int, int] = {}  # for each state of a broker the one that it is in a quiet mesh
        self._delivery: dict[int, bool] = {}  # for frames on a wire, whether they tell of consumers
        self._steps: dict[tuple[object, ...], Step] = {}
        self._count = len(self._world.sites)
        self._sends = self._world.left
        self.seen: set[State] = set()
        self.ends: dict[State, list[Event]] = {}
        self.faults: dict[str, list[Event]] = {}

    @property
    def steps(self) -> int:
        """How many steps of brokers were played."""
        return len(self._steps)

    @property
    def broker_states(self) -> int:
        """How many states the brokers have, each taken for itself."""
        return len(self._sites.values)

    def explore(self) -> None:
        """Play all that can happen."""
        first = self.state_of(self._world)
        self.seen.add(first)
        path: list[Event] = []
        waiting: list[tuple[State, Iterator[Event]]] = [(first, iter(self._events(first)))]
        while waiting:
            state, events = waiting[-1]
            event = next(events, None)
            if event is None:
                waiting.pop()
                del path[-1:]
                continue
            after = self._after(state, event, path)
            if after in self.seen:
                continue
            self.seen.add(after)
            path.append(event)
            follow = self._events(after)
            if not follow:
                self._end(after, path)
            waiting.append((after, iter(follow)))

    def _end(self, state: State, path: list[Event]) -> None:
        self.ends[state] = list(path)
        fault = self._check([self._outcomes[number] for number in state[: self._count]])
        if fault is not None:
            self.faults.setdefault(fault, list(path))

    def _events(self, state: State) -> list[Event]:
        """The same as `MeshWorld.events`, of a state."""
        found: list[Event] = []
        for place in range(len(self._world.links)):
            forth = self._wire_place(place, FORTH)
            if state[forth] == DOWN:
                found.append((LINK, place))
            if state[forth] > EMPTY:
                found.append((FORTH, place))
            if state[forth + 1] > EMPTY:
                if self._eager and self._is_answer(state, (BACK, place)):
                    return [(BACK, place)]
                found.append((BACK, place))
        if state[-1] and not (self._world.calm and state[-1] == self._sends and found):
            found.append((SEND, 0))
        return found

    def _is_answer(self, state: State, event: Event) -> bool:
        """Return True if what arrives is the answer to a message."""
        kind, place = event
        frames = self._wire(state[self._wire_place(place, kind)]) if kind == BACK else ()
        return bool(frames) and self._frames.values[frames[0]][0] == "answer"

    def _wire_place(self, place: int, kind: str) -> int:
        """Where in a `State` the frames of one direction of a link are."""
        return self._count + 2 * place + (kind == BACK)

    def _wire(self, number: int) -> tuple[int, ...]:
        return self._wires.values[number] or ()

    def _after(self, state: State, event: Event, path: list[Event]) -> State:
        """The state to which ``event`` leads from ``state``, to which ``path`` leads."""
        kind, place = event
        after = list(state)
        places = [self._world.sites.index(site) for site in self._world.sites_of(event)]
        key: tuple[object, ...] = (event, *[state[site] for site in places])
        if kind in (FORTH, BACK):
            wire_place = self._wire_place(place, kind)
            first, *rest = self._wire(state[wire_place])
            key = (*key, first)
            after[wire_place] = self._wires.of(tuple(rest))
        elif kind == LINK:
            after[self._wire_place(place, FORTH)] = after[self._wire_place(place, BACK)] = EMPTY
        else:
            after[-1] -= 1
        step = self._steps.get(key)
        if step is None:
            step = self._steps[key] = self._played_step(state, event, path)
            assert not (step.wires and self._is_answer(state, event)), f"the answer of {event} makes frames"
        for site, number in step.sites:
            after[site] = number
        for wire_place, frames in step.wires:
            after[wire_place] = self._wires.of((*self._wire(after[wire_place]), *frames))
        return self._normal(tuple(after))

    def _normal(self, state: State) -> State:
        """The same state without what decides nothing any more if the mesh is quiet."""
        if not self._is_quiet(state):
            return state
        return (*[self._quiet_sites[number] for number in state[: self._count]], *state[self._count :])

    def _is_quiet(self, state: State) -> bool:
        """Return True if all links are up and no wire has news of consumers: there will be none from then on."""
        return not any(number == DOWN or self._tells(number) for number in state[self._count : -1])

    def _tells(self, number: int) -> bool:
        found = self._delivery.get(number)
        if found is None:
            kinds = {self._frames.values[frame][0] for frame in self._wire(number)}
            found = self._delivery[number] = not kinds <= {"message", "answer"}
        return found

    def _played_step(self, state: State, event: Event, path: list[Event]) -> Step:
        """Play ``event`` after ``path`` in a mesh of real brokers."""
        world = self.played(path)
        places = [world.sites.index(site) for site in world.sites_of(event)]
        before = self._full_state_of(world)
        assert self._normal(before) == state, f"{path} leads to another state than the steps of its brokers"
        world.happens(event)
        self._played.append(event)
        after = self._full_state_of(world)
        if self._is_quiet(state):
            before, after = state, self._normal(after)
        sites: list[tuple[int, int]] = []
        for site in range(self._count):
            assert site in places or after[site] == before[site], f"{event} has changed another broker"
            if site in places:
                sites.append((site, after[site]))
        wires: list[tuple[int, tuple[int, ...]]] = []
        for place in range(len(world.links)):
            for kind in (FORTH, BACK):
                wire_place = self._wire_place(place, kind)
                if after[wire_place] != DOWN:
                    old = len(self._wire(before[wire_place])) - ((kind, place) == event)
                    new = self._wire(after[wire_place])[old:]
                    if new:
                        wires.append((wire_place, new))
        return Step(sites, wires)

    def played(self, path: list[Event]) -> MeshWorld:
        """A mesh in which these events have happened."""
        if path[: len(self._played)] != self._played:
            self._world.falls_apart()
            self._world = self._make()
            self._played = []
        for event in path[len(self._played) :]:
            self._world.happens(event)
            self._played.append(event)
        return self._world

    def state_of(self, world: MeshWorld) -> State:
        """The state of a mesh."""
        return self._normal(self._full_state_of(world))

    def _full_state_of(self, world: MeshWorld) -> State:
        names = Names(world)
        found: list[int] = []
        for site in world.sites:
            outcome = Outcome(site, world)
            number = self._sites.of(repr(names.site(site, False)))
            quiet = self._sites.of(repr(names.site(site, True)))
            self._outcomes[number] = self._outcomes[quiet] = outcome
            self._quiet_sites[number] = self._quiet_sites[quiet] = quiet
            found.append(number)
        for place, link in enumerate(world.links):
            for kind, chunks in ((FORTH, link.to_far), (BACK, link.to_near)):
                frames = tuple([self._frames.of((*names.frame(place, kind, data), kind)) for data in chunks])
                found.append(self._wires.of(frames) if link.bridge is not None else DOWN)
        found.append(world.left)
        return tuple(found)
