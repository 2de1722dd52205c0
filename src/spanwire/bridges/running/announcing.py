"""Log lines about the states of a bridge."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, Protocol

from spanwire.bridges.engine.states import BridgeState
from spanwire.bridges.model.diagram import place
from spanwire.bridges.model.route_definition import Definition, RouteDefinition
from spanwire.bridges.model.route_diagram import source_text, targets_text

MAX_CAUSES: Final = 5  # logged in a row; a text that differs at each attempt must not fill the log

logger = logging.getLogger(__name__)


class Announced(Protocol):
    """A machine, or all machines of a bridge."""

    @property
    def name(self) -> str:
        """Return the name of the bridge."""
        ...

    @property
    def state(self) -> BridgeState:
        """Return the state."""
        ...

    @property
    def last_error(self) -> str | None:
        """Return the last error."""
        ...

    @property
    def is_broken(self) -> bool:
        """Return True after a defect."""
        ...

    @property
    def is_hopeless(self) -> bool:
        """Return True after a failure that another attempt would repeat."""
        ...


class Announcer:
    """Logs each change of the state of one bridge, and each new cause of its failures.

    ``tell`` receives the line of the first start.
    """

    def __init__(self, definition: Definition, tell: Callable[[str], None]) -> None:
        self._definition: Final = definition
        self._tell: Final = tell
        self._has_run = False
        self._causes: Final[set[str | None]] = set()  # that were logged since the bridge ran

    def on_change(self, machine: Announced) -> None:
        """Log the state of the machine."""
        name, definition = machine.name, self._definition
        if machine.state is BridgeState.RUNNING:
            self._causes.clear()
            line = f"bridge {name}: running, {path_of(definition)}"
            if self._has_run:
                logger.info("%s", line)
            else:
                self._has_run = True
                self._tell(line)
        elif machine.state is BridgeState.RETRYING:
            if machine.last_error not in self._causes and len(self._causes) < MAX_CAUSES:
                self._causes.add(machine.last_error)
                logger.warning("bridge %s: retrying after a failure: %s", name, machine.last_error)
        elif machine.is_broken:
            logger.error(
                "bridge %s: stopped by an unexpected error, see above; restart it when the cause is gone", name
            )
        elif machine.state is BridgeState.FAILED:
            retries = definition.retry.max_retries
            why = "maxRetries is 0" if retries == 0 else f"all {retries} retries are used up"
            if machine.is_hopeless:
                why = "correct its connection factory and start it again"
            logger.error("bridge %s: failed, %s: %s", name, why, machine.last_error)
        else:
            logger.info("bridge %s: %s", name, machine.state.value)


def path_of(definition: Definition) -> str:
    """Return source, target and quality of service of a bridge without secrets."""
    if isinstance(definition, RouteDefinition):
        return f"{source_text(definition.source)} to {targets_text(definition)}, {definition.quality.value}"
    source, target = definition.source, definition.target
    return (
        f"{source.destination} at {place(source.factory)} to {target.destination} at {place(target.factory)}, "
        f"{definition.quality.value}"
    )
