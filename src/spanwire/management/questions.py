"""The questions why of operators; the explanations are loaded with the first one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, cast

from spanwire import registry
from spanwire.broker.broker import Broker
from spanwire.model.destination import Destination
from spanwire.model.message import Message
from spanwire.transports.base import Clock

if TYPE_CHECKING:
    from spanwire.broker.explanation.links import LinkDescription
    from spanwire.management.why import WhyQuestions

ReadStored = Callable[[Destination, list[int]], Awaitable[list[Message | None]]]


class Questions:
    """Answers the operation ``why`` of one broker (`spanwire.management.why`)."""

    def __init__(
        self, broker: Broker, clock: Clock, read_stored: ReadStored, links: Callable[[], Sequence[LinkDescription]]
    ) -> None:
        self._broker: Final = broker
        self._clock: Final = clock
        self._read_stored: Final = read_stored
        self._links: Final = links
        self._began_ms: Final = clock.now().wall_ms
        self._questions: WhyQuestions | None = None

    async def why(self, arguments: Mapping[str, object]) -> object:
        """Explain an object or a message. Raises `ConfigurationError`."""
        if self._questions is None:
            make = cast("type[WhyQuestions]", registry.load(registry.WHY))
            self._questions = make(self._broker, self._clock, self._read_stored, self._links, self._began_ms)
        return await self._questions.why(arguments)
