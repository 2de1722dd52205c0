"""Finds beans by name or pattern, reads and writes attributes, and runs the listed operations.

Jolokia's endpoint and ``spanwire query`` work on beans only through this module, so both allow the same.
"""

from __future__ import annotations

import json

from spanwire.management.beans.bean import BROKER_KEYS, Bean
from spanwire.management.beans.errors import ILLEGAL, NO_ATTRIBUTE, NOT_FOUND, SECURITY, BeanError
from spanwire.management.beans.executions import Answer, Execution, Node
from spanwire.management.beans.families import DESTINATION_FAMILY, FAMILIES
from spanwire.management.beans.kinds.broker_bean import broker_bean
from spanwire.management.beans.names import Pattern, is_pattern, parts
from spanwire.management.beans.operations import ANSWERS, EXECUTABLE, WRITABLE
from spanwire.management.beans.source import BeanSource
from spanwire.management.tables.operation_table import COMMAND_ROLES, READING
from spanwire.management.tables.view_table import QUEUES


async def all_beans(source: BeanSource, pattern: Pattern) -> list[Bean]:
    """Return the beans with a possible match of a pattern, the broker first."""
    broker = await broker_bean(source)
    beans = [broker] if pattern.may_match(frozenset(BROKER_KEYS)) else []
    for family in FAMILIES:
        if pattern.may_match(family.keys) and (not family.named or family.named in pattern.keys):
            beans += await family.load(source, broker.name)
    return beans


async def matching_beans(source: BeanSource, name: str) -> list[Bean]:
    """Return the beans matched by a name or pattern. Raises `BeanError` for an invalid pattern."""
    try:
        pattern = Pattern.of(name)
    except ValueError as error:
        raise BeanError(400, ILLEGAL, str(error)) from error
    return [bean for bean in await all_beans(source, pattern) if pattern.matches(bean.name)]


async def one_bean(source: BeanSource, name: str) -> tuple[Bean, str]:
    """Return the bean of a name, and the name of the broker's.

    Raises:
        BeanError: there is none, or two queues share the name
    """
    wanted = parts(name)
    keys = frozenset(one.partition("=")[0] for one in wanted[1])
    broker = await broker_bean(source)

    async def named() -> list[Bean]:
        beans = [broker] if keys == frozenset(BROKER_KEYS) else []
        for family in FAMILIES:
            if keys == family.keys:
                beans += await family.load(source, broker.name)
        return [bean for bean in beans if parts(bean.name) == wanted]

    same = await named()
    if not same and keys == DESTINATION_FAMILY.keys and source.forget_older(QUEUES.command):
        same = await named()  # a destination may be younger than the view
    if not same:
        raise BeanError(404, NOT_FOUND, name[:200])
    if len(same) > 1:
        raise BeanError(400, ILLEGAL, f"{len(same)} objects have the name {name[:200]}")
    return same[0], broker.name


async def read_attributes(source: BeanSource, name: str, asked: object) -> object:
    """Return attributes of one bean, or of each bean matched by a pattern.

    ``asked`` is the name of an attribute or a list of names; None asks for all.
    """
    if is_pattern(name):
        matching = await matching_beans(source, name)
        if not matching:
            raise BeanError(404, NOT_FOUND, f"no bean matches {name[:200]}")
        return {bean.name: _attributes(bean.attributes, asked, is_single=False) for bean in matching}
    bean, broker = await one_bean(source, name)
    attributes = bean.attributes
    names = asked if isinstance(asked, list) else [asked]
    if bean.detail is not None and (not asked or any(str(one) not in attributes for one in names)):
        attributes = {**attributes, **await bean.detail(source, broker)}
    return _attributes(attributes, asked, is_single=True)


def _attributes(attributes: Node, asked: object, is_single: bool) -> object:
    if asked is None or asked == [] or asked == "":
        return attributes
    names = asked if isinstance(asked, list) else [asked]
    values = {str(name): attributes[name] for name in names if isinstance(name, str) and name in attributes}
    if is_single and len(values) < len(names):
        missing = next(name for name in names if str(name) not in values)
        raise BeanError(404, NO_ATTRIBUTE, f"No such attribute: {str(missing)[:100]}")
    return values[asked] if is_single and isinstance(asked, str) else values


async def execute(source: BeanSource, bean: Bean, broker: str, operation: str, arguments: object) -> object:
    """Run one of the listed operations of a bean, and return its value.

    Args:
        source: the broker.
        bean: the bean.
        broker: the name of the broker's bean.
        operation: the name, which types of arguments in parentheses may follow.
        arguments: a list of texts, whole numbers, true and false, and of objects where the operation takes some.

    Raises:
        BeanError: the operation is not listed or the role is too low, or an argument is wrong
        ControlError: the broker refuses
    """
    operation = operation.partition("(")[0]
    known = {number: one for (named, number), one in operations_of(bean.kind).items() if named == operation}
    if not known:
        raise BeanError(403, SECURITY, f"the operation {operation[:60]} of this bean is not allowed")
    if not isinstance(arguments, list) or len(arguments) not in known:
        counts = " or ".join(str(number) for number in sorted(known))
        raise BeanError(400, ILLEGAL, f"{operation} takes {counts} arguments here")
    execution = known[len(arguments)]
    words = _words(arguments, takes_objects=isinstance(execution, Execution) and execution.takes_objects)
    if not isinstance(execution, Execution):
        details = {} if bean.detail is None else await bean.detail(source, broker)
        return execution({**bean.attributes, **details}, words)
    result = await _asked(source, bean, operation, execution, words)
    if execution.shown is not None:
        return execution.shown(result, broker, words)
    first = result[0] if isinstance(result, list) and result else result
    value = first.get(execution.value) if isinstance(first, dict) and execution.value else None
    return bool(value) if execution.is_flag else value


async def write_attribute(source: BeanSource, name: str, attribute: object, value: object) -> object:
    """Write a listed attribute of a bean, and return the value before. Raises as `execute`."""
    bean, _ = await one_bean(source, name)
    execution = WRITABLE.get(bean.kind, {}).get(str(attribute))
    if execution is None:
        raise BeanError(403, SECURITY, f"the attribute {str(attribute)[:60]} of this bean cannot be written")
    word = _words([value])[0]
    before = await read_attributes(source, name, attribute)
    await _asked(source, bean, f"writing {attribute}", execution, [word])
    return before


async def _asked(source: BeanSource, bean: Bean, operation: str, execution: Execution, words: list[str]) -> object:
    """Return the broker's answer to an operation. Raises `BeanError` if the user's role is too low."""
    command = execution.command
    if source.role < COMMAND_ROLES[command]:
        raise BeanError(403, SECURITY, f"{operation} needs the role {COMMAND_ROLES[command].name.lower()}")
    arguments = execution.arguments(bean.subject or {}, words)
    return await (source.ask(command, **arguments) if arguments or command not in READING else source.view(command))


def operations_of(kind: str) -> dict[tuple[str, int], Execution | Answer]:
    """Return the operations of a kind of bean by name and number of arguments."""
    return {**EXECUTABLE.get(kind, {}), **ANSWERS.get(kind, {})}


def _words(arguments: list[object], *, takes_objects: bool = False) -> list[str]:
    """Return the arguments of a request as texts: true and false in small letters, and objects as JSON."""
    types = (str, int, dict) if takes_objects else (str, int)
    if not all(isinstance(value, types) for value in arguments):
        raise BeanError(400, ILLEGAL, "arguments are texts, whole numbers, true and false")
    return [value if isinstance(value, str) else json.dumps(value) for value in arguments]
