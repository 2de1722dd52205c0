"""Takes batches of messages through the steps of a route, and plans what is sent and remembered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from spanwire.bridges.engine.changed_messages import copy_of, storable, with_property
from spanwire.bridges.engine.message_values import READERS, WRITERS, condition_of, value_of
from spanwire.bridges.engine.route_calls import Calls, FunctionCall
from spanwire.bridges.engine.route_state import Changes, KeyForgotten, KeySeen, RouteState
from spanwire.bridges.engine.route_steps import (
    AppendIdOperation,
    BodyOperation,
    ChoiceOperation,
    DelayOperation,
    FilterOperation,
    GatherOperation,
    HeaderOperation,
    IdempotentOperation,
    LogLine,
    LogOperation,
    MulticastOperation,
    Operation,
    Operations,
    Outcome,
    ProcessOperation,
    RemoveOperation,
    SendOperation,
    SplitOperation,
    ThrottleOperation,
    parts_of,
    run,
)
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.model.route_definition import RouteDefinition, keeps_state
from spanwire.bridges.model.steps import MessageAtFaultError
from spanwire.model.environment import Time
from spanwire.model.errors import MessageFormatError
from spanwire.model.message_view import STRING_VALUE
from spanwire.model.units import MIB
from spanwire.routes.model import (
    Choice,
    Delay,
    Endpoint,
    Expression,
    Filter,
    Gather,
    Idempotent,
    Log,
    Multicast,
    Process,
    RemoveHeader,
    SetHeader,
    SplitBody,
    Step,
    Throttle,
    To,
    Transform,
    is_id_list,
)

CAUSE: Final = "dlqDeliveryFailureCause"  # ActiveMQ's property with the cause of a dead letter
MAX_CAUSE: Final = 500  # characters
REPEATED: Final = "the message has the key of a refused message that it was sent with"
MAX_PLANNED: Final = 20_000  # messages to send for one batch; what a batch of more than one message makes beyond is not
MAX_PLANNED_BYTES: Final = 64 * MIB  # planned at once, nor beyond so many bytes: the batch is taken singly then


class TakenSinglyError(Exception):
    """A batch must be taken one message at a time.

    An example is a batch with more resulting messages than planned at once.
    """


@dataclass(slots=True)
class Plan:
    """The effects of a batch: messages by target, changes, lines, and the earliest time.

    The messages of a target are in the order of sending.
    """

    sends: dict[int, list[BridgeMessage]] = field(default_factory=dict)
    lines: list[LogLine] = field(default_factory=list)
    changes: Changes = field(default_factory=lambda: Changes([], []))
    not_before: float = 0.0
    dead_letters: int = 0
    messages: int = 0
    size: int = 0  # bytes of these messages
    position: int = 0  # messages of the batch that have passed the steps
    calls: Calls = field(default_factory=Calls)  # of the message or group that passes them now
    _keys: dict[int, list[KeySeen]] = field(default_factory=dict)  # new keys by the identity of a planned message
    _repeated: dict[KeySeen, list[BridgeMessage]] = field(default_factory=dict)

    @property
    def pending(self) -> list[FunctionCall]:
        """Return the calls with outstanding answers."""
        return self.calls.pending

    @property
    def is_full(self) -> bool:
        """Return True if another message must not be planned."""
        return self.messages >= MAX_PLANNED or self.size >= MAX_PLANNED_BYTES

    def take(self, outcome: Outcome) -> None:
        """Add the outcome of a message or group."""
        self.calls = Calls()
        keys = [change for change in outcome.changes if isinstance(change, KeySeen)]
        for target, message in outcome.sends:
            self.sends.setdefault(target, []).append(message)
            self.size += message.size
            if keys:
                self._keys[id(message)] = keys
        for known, message in outcome.repeated:
            self._repeated.setdefault(known, []).append(message)
        self.messages += len(outcome.sends)
        self.lines += outcome.lines
        self.changes.changes.extend(outcome.changes)
        self.not_before = max(self.not_before, outcome.not_before)

    def forget_keys_of(self, message: BridgeMessage, state: RouteState) -> list[BridgeMessage]:
        """Forget the keys of a refused message, so that a corrected copy passes.

        Returns the messages of the batch taken for duplicates of the refused message.
        """
        duplicates: list[BridgeMessage] = []
        for seen in self._keys.pop(id(message), []):
            duplicates += self._repeated.pop(seen, [])
            if state.knows(seen.step, seen.key):  # else another message of the batch took its place
                forgotten = KeyForgotten(seen.step, seen.key)
                state.apply(forgotten)
                self.changes.changes.append(forgotten)
        return duplicates


class RouteProcessor:
    """The steps of one route."""

    def __init__(self, definition: RouteDefinition) -> None:
        """Prepare the steps.

        Raises:
            ConfigurationError: a step sets a header that only a broker sets, or gathers without dead letters.
        """
        self._endpoints: Final[list[Endpoint]] = definition.endpoints
        self._dead_letters: Final[int | None] = definition.dead_letters
        self._gathering: Final[list[GatherOperation]] = []
        self._splits = 0
        self._processes = 0
        self.step_names: Final[dict[int, str]] = {}  # of the steps that keep a state: kind, key and place
        self.batch_limit: int | None = None  # messages that throttles let pass at once
        self.keeps_state: Final[bool] = keeps_state(definition.steps)
        self._operations: Final[Operations] = self._operations_of(definition.steps)

    def process(self, batch: list[BridgeMessage], now: Time, state: RouteState, plan: Plan) -> None:
        """Go on with the plan for a batch, and change the state.

        Messages of stored batches pass without an effect.

        The plan is complete without pending calls; with the answers the caller calls again. The plan has the groups
        complete by time, too: a never quiet source delays no group. After an error the caller takes up the stored state
        again, except for a batch of one message at fault.

        Raises:
            MessageAtFaultError: a message is at fault, and there is no endpoint for dead letters.
            TakenSinglyError: the batch must be taken one message at a time.
        """
        while plan.position < len(batch) and self._make_room(plan, now, state):
            if not self._pass(batch, now, state, plan):
                return
        if not self._make_room(plan, now, state) or not self._expire(plan, now, state):
            return
        if self.keeps_state and batch:
            ids = [storable(message.message_id) for message in batch if message.message_id]
            plan.changes.recent.extend(ids)
            state.remember(ids)

    def _pass(self, batch: list[BridgeMessage], now: Time, state: RouteState, plan: Plan) -> bool:
        """Take the next message through the steps. Returns False with pending calls."""
        index, message = plan.position, batch[plan.position]
        if self.keeps_state and message.message_id and storable(message.message_id) in state.recent:
            plan.position += 1
            return True
        if index and plan.is_full:
            raise TakenSinglyError
        outcome = Outcome(now, state, calls=plan.calls)
        plan.calls.begin()
        try:
            run(self._operations, copy_of(message), outcome)
        except MessageFormatError as error:
            outcome.roll_back()
            if self._dead_letters is None:
                raise MessageAtFaultError(index, str(error)) from None
            plan.calls.begin()
            outcome.dead = [(message, str(error))]
        if plan.pending:
            outcome.suspend()
            return False
        self._take(outcome, plan)
        plan.position += 1
        return True

    def _expire(self, plan: Plan, now: Time, state: RouteState) -> bool:
        for operation in self._gathering:
            for (number, key), group in list(state.groups.items()):
                deadline_ms = operation.deadline_ms(group.first_ms)
                if number == operation.number and deadline_ms is not None and deadline_ms <= now.wall_ms:
                    if not self._complete(operation, key, now, state, plan):
                        return False
        return True

    def deadline_ms(self, state: RouteState) -> int | None:
        """Return the time of the next complete group, in milliseconds since 1970; None without a group."""
        deadlines = [
            deadline
            for operation in self._gathering
            for (number, _), group in state.groups.items()
            if number == operation.number and (deadline := operation.deadline_ms(group.first_ms)) is not None
        ]
        return min(deadlines, default=None)

    def dead_letter(self, message: BridgeMessage, cause: str) -> tuple[int, BridgeMessage] | None:
        """Return the target for dead letters and the message with the cause; None without such a target."""
        if self._dead_letters is None:
            return None
        dead = copy_of(message)
        try:
            with_property(dead, CAUSE, (STRING_VALUE, cause[:MAX_CAUSE]))
        except MessageFormatError:  # its properties cannot be read
            dead.properties = {CAUSE: (STRING_VALUE, cause[:MAX_CAUSE])}
        return self._dead_letters, dead

    def _take(self, outcome: Outcome, plan: Plan) -> None:
        for message, cause in outcome.dead:
            letter = self.dead_letter(message, cause)
            assert letter is not None, "a route that gathers has an endpoint for dead letters"
            outcome.sends.append(letter)
            plan.dead_letters += 1
        plan.take(outcome)

    def _make_room(self, plan: Plan, now: Time, state: RouteState) -> bool:
        """Complete the oldest groups while the state is full. Returns False with pending calls."""
        while state.is_full:
            operations = {operation.number: operation for operation in self._gathering}
            known = (at for at in state.groups if at[0] in operations)
            oldest = min(known, key=lambda at: state.groups[at].first_ms, default=None)
            if oldest is None:  # the store refuses a state with groups of other steps
                return True
            if not self._complete(operations[oldest[0]], oldest[1], now, state, plan):
                return False
        return True

    def _complete(self, operation: GatherOperation, key: str, now: Time, state: RouteState, plan: Plan) -> bool:
        outcome = Outcome(now, state, calls=plan.calls)
        plan.calls.begin()
        operation.complete(key, outcome)
        if plan.pending:
            outcome.suspend()
            return False
        self._take(outcome, plan)
        return True

    def _operations_of(self, steps: list[Step]) -> Operations:
        operations: Operations = []
        for position, step in enumerate(steps):
            if isinstance(step, Gather):
                if self._dead_letters is None:
                    raise step.location.error(
                        "aggregate needs a deadLetter of the route, for groups whose message cannot be sent"
                    )
                number = self._next_number("aggregate", step.key)
                following = self._operations_of(step.steps if step.is_branch else steps[position + 1 :])
                gather = GatherOperation(number, step, value_of(step.key), following)
                self._gathering.append(gather)
                operations.append(gather)
                if not step.is_branch:
                    break  # the rest follows a complete group
            else:
                operations.append(self._operation(step))
        return operations

    def _next_number(self, kind: str, key: Expression) -> int:
        """Return the number of a step with state, and name the step for a changed route.

        By the name the changed route finds the state.
        """
        name = f"{kind} {key.language} {key.text}"
        place = 1 + sum(known.rpartition(" #")[0] == name for known in self.step_names.values())
        number = len(self.step_names) + 1
        self.step_names[number] = f"{name} #{place}"
        return number

    def _operation(self, step: Step) -> Operation:
        if isinstance(step, (SetHeader, RemoveHeader, Transform)):
            return _change(step)
        if isinstance(step, (Throttle, Delay, Log)):
            return self._passing(step)
        if isinstance(step, Filter):
            return FilterOperation(condition_of(step.condition), self._inner(step.steps, step.is_branch))
        if isinstance(step, Choice):
            branches = [(condition_of(condition), self._operations_of(steps)) for condition, steps in step.branches]
            return ChoiceOperation(branches, self._operations_of(step.otherwise))
        if isinstance(step, Multicast):
            return MulticastOperation([self._operations_of(branch) for branch in step.branches])
        if isinstance(step, To):
            return self._send(step.endpoint)
        if isinstance(step, Process):
            self._processes += 1
            return ProcessOperation(self._processes, step.name)
        if isinstance(step, SplitBody):
            self._splits += 1
            return SplitOperation(self._splits, parts_of(step), self._inner(step.steps, step.is_branch))
        assert isinstance(step, Idempotent), step
        number = self._next_number("idempotentConsumer", step.key)
        return IdempotentOperation(number, value_of(step.key), step.size, self._inner(step.steps, step.is_branch))

    def _passing(self, step: Throttle | Delay | Log) -> Operation:
        if isinstance(step, Throttle):
            self.batch_limit = min(step.count, self.batch_limit or step.count)
            return ThrottleOperation(step.count, step.period_ms)
        if isinstance(step, Delay):
            return DelayOperation(step.delay_ms)
        return LogOperation(step.level, step.name, value_of(step.message))

    def _inner(self, steps: list[Step], is_branch: bool) -> Operations | None:
        return self._operations_of(steps) if is_branch else None

    def _send(self, endpoint: Endpoint) -> SendOperation:
        options = endpoint.options
        persistent, priority = options.get("persistent"), options.get("priority")
        return SendOperation(
            self._endpoints.index(endpoint),
            None if persistent is None else persistent.lower() == "true",
            None if priority is None else int(priority),
            int(options.get("timeToLiveMs", 0)),
            options.get("dropTemporaryReplyTo", "").lower() == "true",
        )


def _change(step: SetHeader | RemoveHeader | Transform) -> Operation:
    if isinstance(step, Transform):
        assert step.body is not None
        return BodyOperation(value_of(step.body))
    if isinstance(step, SetHeader) and is_id_list(step):
        return AppendIdOperation(step.name)
    _check_header(step, step.name)
    return (
        RemoveOperation(step.name)
        if isinstance(step, RemoveHeader)
        else HeaderOperation(step.name, value_of(step.value))
    )


def _check_header(step: SetHeader | RemoveHeader, name: str) -> None:
    if name in READERS and name not in WRITERS:
        raise step.location.error(f"{name} is set by the broker, and no step can change it")
