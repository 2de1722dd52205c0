"""Beans of ``spanwire query``: chosen by ActiveMQ's names of objects, and operated as over Jolokia."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from spanwire.management.beans.bean import Bean
from spanwire.management.beans.errors import ILLEGAL, SECURITY, BeanError
from spanwire.management.beans.invocation import execute, matching_beans, operations_of
from spanwire.management.beans.names import DOMAIN, quoted
from spanwire.management.control_client import ControlClient, ControlError
from spanwire.management.tables.operation_table import Role
from spanwire.model.errors import ConfigurationError, SpanwireError

EVERY_BEAN: Final = f"{DOMAIN}:type=Broker,*"
BROKER_PROPERTIES: Final = "type=Broker,brokerName=*"
# The names of beans for the types of -Q; NAME stands for the name that is written behind the type.
TYPE_PATTERNS: Final = {
    "Broker": "type=Broker,brokerName=NAME",
    "Connector": f"{BROKER_PROPERTIES},connector=clientConnectors,connectorName=NAME",
    "NetworkConnector": f"{BROKER_PROPERTIES},connector=networkConnectors,networkConnectorName=NAME",
    "Connection": f"{BROKER_PROPERTIES},connector=clientConnectors,connectorName=*,connectionViewType=clientId,"
    "connectionName=NAME",
    "Subscription": f"{BROKER_PROPERTIES},destinationType=*,destinationName=*,endpoint=Consumer,clientId=*,"
    "consumerId=NAME",
    "DurableSubscription": f"{BROKER_PROPERTIES},destinationType=Topic,destinationName=*,endpoint=Consumer,clientId=*,"
    "consumerId=Durable(NAME)",
    "Producer": f"{BROKER_PROPERTIES},destinationType=*,destinationName=*,endpoint=Producer,clientId=*,producerId=NAME",
    "Queue": f"{BROKER_PROPERTIES},destinationType=Queue,destinationName=NAME",
    "Topic": f"{BROKER_PROPERTIES},destinationType=Topic,destinationName=NAME",
    "TempQueue": f"{BROKER_PROPERTIES},destinationType=TempQueue,destinationName=NAME",
    "TempTopic": f"{BROKER_PROPERTIES},destinationType=TempTopic,destinationName=NAME",
}
FIRST_LETTERS: Final = {"Type": "type", "BrokerName": "brokerName", "Destination": "destinationName"}  # of ActiveMQ 4
OPENING: Final = {"(": ")", "[": "]", "{": "}"}


class ControlSource:
    """A source of beans over the control socket, whose user may do everything. Blocks."""

    def __init__(self, client: ControlClient) -> None:
        self._client: Final = client
        self._answers: Final[dict[str, object]] = {}

    @property
    def role(self) -> Role:
        """The role of the broker's own user."""
        return Role.ADMIN

    async def view(self, command: str) -> object:
        """Return the answer to a reading command, of this run. Raises `ControlError`."""
        if command not in self._answers:
            self._answers[command] = self._client.ask(command)
        return self._answers[command]

    def forget_older(self, command: str) -> bool:
        """Return False: all answers are of this run."""
        return False

    async def ask(self, command: str, **arguments: object) -> object:
        """Return the present answer to a command. Raises `ControlError`."""
        return self._client.ask(command, **arguments)

    async def status(self) -> dict[str, object]:
        """Return the status of the broker. Raises `ControlError`."""
        status = await self.view("summary")
        if not isinstance(status, dict):
            raise ControlError("the broker's status has another form than expected; is it of another version?")
        return status


def pattern_of(name: str) -> str:
    """Return the pattern of a name in ActiveMQ's query: some properties, with or without the domain."""
    domain, colon, properties = name.partition(":")
    if not colon:
        domain, properties = DOMAIN, f"{name},*"
    words = []
    for word in properties.split(","):
        key, equals, value = word.partition("=")
        if not equals and word != "*":
            raise ConfigurationError(f"{name[:200]}: write properties of a name, such as destinationType=Queue")
        words.append(f"{FIRST_LETTERS.get(key, key)}{equals}{value}")
    return f"{domain}:{','.join(dict.fromkeys(words))}"


def type_pattern(kind: str, name: str) -> str:
    """Return the pattern for a type and name of -Q. Raises `ConfigurationError` for a type without beans."""
    pattern = TYPE_PATTERNS.get(kind)
    if pattern is None:
        raise ConfigurationError(f"-Q{kind} has no beans; write --objname with properties of their names")
    shown = "*".join("?".join(map(quoted, part.split("?"))) for part in name.split("*"))
    return f"{DOMAIN}:{pattern.replace('NAME', shown)}"


async def chosen_beans(source: ControlSource, included: Sequence[str], excluded: Sequence[str]) -> list[Bean]:
    """Return the beans that one of ``included`` finds and none of ``excluded``, each once.

    Raises:
        ConfigurationError: a pattern is invalid
        ControlError: the broker does not answer
    """
    try:
        left_out = {bean.name for name in excluded for bean in await matching_beans(source, name)}
        found = {bean.name: bean for name in included for bean in await matching_beans(source, name)}
    except BeanError as error:
        raise ConfigurationError(str(error)) from error
    return [bean for name, bean in found.items() if name not in left_out]


async def complete(source: ControlSource, beans: Sequence[Bean], wanted: Sequence[str]) -> None:
    """Add to beans the ``wanted`` attributes shown only by the reading of a single bean.

    A single bean gets all of them, if none is named. Raises `ControlError`.
    """
    is_single = len(beans) == 1 and not wanted
    for bean in beans:
        if bean.detail is not None and (is_single or any(name not in bean.attributes for name in wanted)):
            bean.attributes.update(await bean.detail(source, broker_of(bean)))


async def invoke(source: ControlSource, bean: Bean, operation: str, arguments: list[object]) -> object:
    """Run an operation of a bean. Raises `SpanwireError` in one line if it is not allowed, or refused."""
    try:
        return await execute(source, bean, broker_of(bean), operation, arguments)
    except BeanError as error:
        if error.kind not in (SECURITY, ILLEGAL):
            raise SpanwireError(str(error)) from error
        names = sorted({name for name, _ in operations_of(bean.kind)})
        raise SpanwireError(f"{error}; it has {', '.join(names) or 'no operations'}") from error


def broker_of(bean: Bean) -> str:
    """Return the name of the broker's bean, with which all others begin."""
    return ",".join(bean.name.split(",")[:2])


def read_invocation(text: str) -> tuple[str, list[object]]:
    """Return the operation and the arguments of ``OPERATION`` or ``OPERATION(ARGUMENT, …)``.

    Commas between quotation marks, and inside of brackets, do not part arguments. An argument within double quotation
    marks is the text between them, one within braces an object in JSON, each other one is a text as it stands.

    Raises:
        ConfigurationError: a parenthesis or quotation mark is not closed
    """
    operation, parenthesis, rest = text.strip().partition("(")
    operation = operation.strip()
    if not operation or (parenthesis and not rest.endswith(")")):
        raise ConfigurationError(f"--invoke {text[:100]}: write OPERATION or OPERATION(ARGUMENT, ARGUMENT)")
    words = _parted(rest[:-1], text) if parenthesis else []
    return operation, [] if words == [""] else [_argument(word) for word in words]


def _parted(text: str, whole: str) -> list[str]:
    words, closing, quote = [""], list[str](), ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in OPENING:
            closing.append(OPENING[character])
        elif closing and character == closing[-1]:
            closing.pop()
        elif character == "," and not closing:
            words.append("")
            continue
        words[-1] += character
    if quote or closing:
        raise ConfigurationError(f"--invoke {whole[:100]}: {quote or closing[-1]} is missing at the end")
    return [word.strip() for word in words]


def _argument(word: str) -> object:
    if len(word) > 1 and word[0] == word[-1] == '"':
        return word[1:-1]
    if word.startswith("{"):
        try:
            value = json.loads(word)
        except (ValueError, RecursionError) as error:
            raise ConfigurationError(f"--invoke: {word[:100]} is no JSON: {error}") from error
        return value if isinstance(value, dict) else word
    return word


def shown_value(value: object) -> str:
    """Return the value of an operation as one line, or of several for a list."""
    if value is None or value is True:
        return "done"
    if isinstance(value, list):
        return "\n".join(_one(one) for one in value) or "none"
    return _one(value)


def _one(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def selected(bean: Bean, wanted: Sequence[str]) -> dict[str, object]:
    """Return the attributes in ``wanted``, all without such."""
    return {name: value for name, value in bean.attributes.items() if not wanted or name in wanted}


def lines_of(bean: Bean, wanted: Sequence[str]) -> list[str]:
    """Return ``Name = value`` lines of a bean, of the attributes in ``wanted`` unless it is empty."""
    values = selected(bean, wanted)
    return [f"ObjectName = {bean.name}", *(f"{name} = {_one(value)}" for name, value in values.items())]
