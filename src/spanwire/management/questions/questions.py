"""The questions why of operators; the first question loads the explanations."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol, cast

from spanwire import registry
from spanwire.broker.broker import Broker
from spanwire.model.destination import Destination
from spanwire.model.message import Message
from spanwire.transports.base import Clock

if TYPE_CHECKING:
    from spanwire.broker.explanation.links import LinkDescription
    from spanwire.management.questions.route_probe import RouteProbe
    from spanwire.management.questions.traces import Traces
    from spanwire.management.questions.why import WhyQuestions

View = dict[str, object]
ReadStored = Callable[[Destination, list[int]], Awaitable[list[Message | None]]]


class NetworkSource(Protocol):
    """The part of the network connectors used here (``service/networking/networking.py``)."""

    def link_descriptions(self) -> Sequence[LinkDescription]:
        """Return the reasons of each link for or against a crossing of messages."""
        ...

    async def ask_everywhere(self, action: str, text: str) -> list[View]:
        """Return the broker's answers and the answers of brokers behind it to a question of another kind."""
        ...

    def traces(self, broker: Broker, wake: Callable[[], None]) -> TraceCommands:
        """Return the broker's traces, also for questions of other brokers."""
        ...

    async def explain_everywhere(self, message_id: str) -> list[View]:
        """Return the explanations of the broker and of the brokers behind it about a message."""
        ...


async def nothing_stored(destination: Destination, sequences: list[int]) -> list[Message | None]:
    """Return no message, for a broker without a store."""
    return [None] * len(sequences)


class Questions:
    """Answers the question ``why`` about one broker (`spanwire.management.questions.why`)."""

    def __init__(
        self, broker: Broker, clock: Clock, read_stored: ReadStored, network: NetworkSource | None = None
    ) -> None:
        self._broker: Final = broker
        self._clock: Final = clock
        self._read_stored: Final = read_stored
        self._network: Final = network
        self._began_ms: Final = clock.now().wall_ms
        self._questions: WhyQuestions | None = None

    async def why(self, arguments: Mapping[str, object]) -> View:
        """Explain an object or a message. Raises `ConfigurationError`."""
        if self._questions is None:
            make = cast("type[WhyQuestions]", registry.load(registry.WHY))
            self._questions = make(self._broker, self._clock, self._read_stored, self._network, self._began_ms)
        return await self._questions.why(arguments)

    async def explanations(self, message_id: str) -> list[View]:
        """Return the broker's explanations of a message."""
        answer = await self.why({"name": message_id, "kind": "message"})
        return cast("list[View]", answer["explanations"])


class TraceCommands:
    """Starts, reads and ends traces of messages.

    The first trace loads `spanwire.management.questions.traces`.
    """

    def __init__(
        self, broker: Broker, clock: Clock, wake: Callable[[], None], network: NetworkSource | None = None
    ) -> None:
        self._broker: Final = broker
        self._clock: Final = clock
        self._wake: Final = wake
        self._network: Final = network
        self._made: Traces | None = None
        self._probe: RouteProbe | None = None

    @property
    def _traces(self) -> Traces:
        if self._made is None:
            make = cast("type[Traces]", registry.load(registry.TRACES))
            self._made = make(self._broker, self._clock, self._wake, self._network)
        return self._made

    async def start(self, arguments: Mapping[str, object]) -> View:
        """Mark messages. Raises `ConfigurationError`."""
        return await self._traces.start(arguments)

    async def end(self, arguments: Mapping[str, object]) -> View:
        """End a trace. Raises `ConfigurationError`."""
        return await self._traces.end(arguments)

    async def observations(self, arguments: Mapping[str, object]) -> View:
        """Return the observations. Raises `ConfigurationError`."""
        return await self._traces.observations(arguments)

    async def own(self, text: str) -> list[View]:
        """Return the broker's observations for another broker. Raises `ConfigurationError`."""
        return await self._traces.own(text)

    @property
    def _routes(self) -> RouteProbe:
        if self._probe is None:
            make = cast("type[RouteProbe]", registry.load(registry.ROUTE_PROBE))
            self._probe = make(self._broker, self._clock, self._network)
        return self._probe

    async def dry_run(self, arguments: Mapping[str, object]) -> View:
        """Return the brokers' decisions about an unsent message. Raises `ConfigurationError`."""
        return await self._routes.dry_run(arguments)

    async def own_route(self, text: str) -> list[View]:
        """Return the broker's decisions about the message of a dry run. Raises `ConfigurationError`."""
        return await self._routes.own(text)
