"""Jolokia's protocol at ``/api/jolokia`` for tools that read ActiveMQ's beans: version, list, search, read and exec.

Beans are objects of the table of views under ActiveMQ's names. Nothing is generic: attributes are those of the table,
operations those of `EXECUTABLE`. The broker checks the role of each operation.

Requests come as GET (``/api/jolokia/read/MBEAN/ATTRIBUTE``) or as POST of one object or a list of objects. A GET
changes nothing, so ``exec`` is a POST.
Specification: https://jolokia.org/reference/html/manual/jolokia_protocol.html
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import translate
from http import HTTPStatus
from typing import Final

from starlette.responses import JSONResponse, Response

from spanwire import __version__
from spanwire.management.attributes import ViewTable
from spanwire.management.control_client import ControlError
from spanwire.management.handles import FORBIDDEN, UNAUTHENTICATED
from spanwire.management.operation_table import COMMAND_ROLES, Role
from spanwire.management.view_table import BROKER, CONNECTORS, QUEUES, TOPICS, rows_of, type_of
from spanwire.web.api import broker_with_totals
from spanwire.web.calls import Call, RouteRow
from spanwire.web.problems import ProblemError

PATH: Final = "/api/jolokia"
DOMAIN: Final = "org.apache.activemq"
PROTOCOL_VERSION: Final = "7.2"
MAX_REQUESTS: Final = 100  # requests in one list
MAX_PATTERN: Final = 500  # characters of a name
MAX_WILDCARDS: Final = 5  # stars of a name
MAX_DIGITS: Final = 9  # of a number of messages
TYPES: Final = {"queue": "Queue", "topic": "Topic", "temp-queue": "TempQueue", "temp-topic": "TempTopic"}
JSON_TYPES: Final = frozenset({"application/json", "text/json"})  # what no form of a page can send
ESCAPED: Final = re.compile(r"!(.)|/")
ILLEGAL_IN_NAMES: Final = re.compile(r"[:,'\"=?*]")
QUOTED: Final = {"?": "&qmark;", "=": "&equals;", "*": "&asterisk;"}
NOT_FOUND: Final = "javax.management.InstanceNotFoundException"
NO_ATTRIBUTE: Final = "javax.management.AttributeNotFoundException"
ILLEGAL: Final = "java.lang.IllegalArgumentException"
SECURITY: Final = "java.lang.SecurityException"
STATE: Final = "java.lang.IllegalStateException"

Node = dict[str, object]


class JolokiaError(Exception):
    """Raised to answer one request with an error of Jolokia."""

    def __init__(self, status: int, kind: str, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.kind = kind


BROKER_BEAN: Final = "broker"


@dataclass(frozen=True, slots=True)
class Execution:
    """An operation of a bean: the command, its arguments, and the key of the value in the first row of the result.

    ``arguments`` gets the bean's destination and the words of the request. An ``is_flag`` value is true unless 0.
    """

    command: str
    arguments: Callable[[str, list[str]], Node]
    value: str = ""
    is_flag: bool = False


def _message(message_id: str) -> str:
    """Return the selector of one message."""
    quoted = message_id.replace("'", "''")
    return f"JMSMessageID = '{quoted}'"


def _queue(name: str, words: list[str]) -> Node:
    return {"destinations": [name]}


def _one(name: str, words: list[str]) -> Node:
    return {"destinations": [name], "selector": _message(words[0]), "limit": 1}


def _some(name: str, words: list[str]) -> Node:
    return {"destinations": [name], "selector": words[0], **_most(words, 1)}


def _one_to(name: str, words: list[str]) -> Node:
    return {**_one(name, words), "target": words[1]}


def _some_to(name: str, words: list[str]) -> Node:
    return {"destinations": [name], "selector": words[0], "target": words[1], **_most(words, 2)}


def _most(words: list[str], index: int) -> Node:
    if len(words) <= index:
        return {}
    if not (words[index].isascii() and words[index].isdigit() and len(words[index]) <= MAX_DIGITS):
        raise JolokiaError(400, ILLEGAL, "the number of messages is no whole number")
    return {"limit": int(words[index])}


def _subscription(name: str, words: list[str]) -> Node:
    selector: Node = {"selector": words[3]} if words[3].strip() else {}
    return {"client_id": words[0], "name": words[1], "topic": words[2], **selector}


# Operations by the kind of a bean, by name and number of arguments.
EXECUTABLE: Final[dict[str, dict[tuple[str, int], Execution]]] = {
    "queue": {
        ("purge", 0): Execution("purge", _queue),
        ("pause", 0): Execution("pause", _queue),
        ("resume", 0): Execution("resume", _queue),
        ("resetStatistics", 0): Execution("reset-statistics", _queue),
        ("retryMessages", 0): Execution("retry", _queue, "retried"),
        ("retryMessage", 1): Execution("retry", _one, "retried", True),
        ("removeMessage", 1): Execution("purge", _one, "removed", True),
        ("removeMatchingMessages", 1): Execution("purge", _some, "removed"),
        ("removeMatchingMessages", 2): Execution("purge", _some, "removed"),
        ("moveMessageTo", 2): Execution("move", _one_to, "moved", True),
        ("moveMatchingMessagesTo", 2): Execution("move", _some_to, "moved"),
        ("moveMatchingMessagesTo", 3): Execution("move", _some_to, "moved"),
        ("copyMessageTo", 2): Execution("copy", _one_to, "copied", True),
        ("copyMatchingMessagesTo", 2): Execution("copy", _some_to, "copied"),
        ("copyMatchingMessagesTo", 3): Execution("copy", _some_to, "copied"),
        ("sendTextMessage", 1): Execution(
            "send", lambda name, words: {"destination": name, "body": words[0]}, "message_id"
        ),
    },
    "topic": {
        ("resetStatistics", 0): Execution("reset-statistics", _queue),
        ("sendTextMessage", 1): Execution(
            "send", lambda name, words: {"destination": name, "body": words[0]}, "message_id"
        ),
    },
    BROKER_BEAN: {
        ("addQueue", 1): Execution("create", lambda name, words: {"destinations": [f"queue://{words[0]}"]}),
        ("addTopic", 1): Execution("create", lambda name, words: {"destinations": [f"topic://{words[0]}"]}),
        ("removeQueue", 1): Execution("delete", lambda name, words: {"destinations": [f"queue://{words[0]}"]}),
        ("removeTopic", 1): Execution("delete", lambda name, words: {"destinations": [f"topic://{words[0]}"]}),
        ("createDurableSubscriber", 4): Execution("create-subscription", _subscription),
        ("destroyDurableSubscriber", 2): Execution(
            "remove-subscription", lambda name, words: {"client_id": words[0], "name": words[1]}
        ),
    },
}


@dataclass(frozen=True, slots=True)
class Bean:
    """One object under its name, with its attributes.

    ``kind`` chooses its operations; ``destination`` names a queue or topic.
    """

    name: str
    attributes: Node
    kind: str = ""
    destination: str = ""


async def by_path(call: Call) -> Response:
    """Answer a request in the path."""
    request = request_of(split_path(str(call.request.path_params.get("name", "")).strip("/")))
    if request["type"] == "exec":
        raise ProblemError(HTTPStatus.METHOD_NOT_ALLOWED, "exec is a POST, because a GET changes nothing")
    return JSONResponse(await _answered(call, request))


async def by_body(call: Call) -> Response:
    """Answer a request, or a list of requests, in the body."""
    content_type = call.request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type not in JSON_TYPES:
        raise ProblemError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the body has the type application/json")
    try:
        content = json.loads(await call.request.body())
    except (ValueError, RecursionError) as error:
        raise ProblemError(HTTPStatus.BAD_REQUEST, "the body is no JSON, or nested too deep") from error
    if isinstance(content, list):
        if len(content) > MAX_REQUESTS:
            raise ProblemError(HTTPStatus.BAD_REQUEST, f"a list has at most {MAX_REQUESTS} requests")
        return JSONResponse([await _answered(call, request) for request in content])
    return JSONResponse(await _answered(call, content))


def split_path(path: str) -> list[str]:
    """Return the parts of a path; ``!/`` is a slash and ``!!`` an exclamation mark inside of a part."""
    parts = [""]
    position = 0
    for match in ESCAPED.finditer(path):
        parts[-1] += path[position : match.start()]
        position = match.end()
        if match.group() == "/":
            parts.append("")
        else:
            parts[-1] += match.group(1)
    parts[-1] += path[position:]
    return parts


def request_of(words: list[str]) -> Node:
    """Return the request of a path's parts."""
    kind, rest = words[0] or "version", words[1:]
    request: Node = {"type": kind}
    if rest:
        request["mbean"] = rest[0]
    if kind == "read" and len(rest) > 1:
        names = rest[1].split(",")
        request["attribute"] = names if len(names) > 1 else names[0]
    return request


async def _answered(call: Call, request: object) -> Node:
    """Return the answer to one request; its errors stand in it."""
    shown = request if isinstance(request, dict) else {}
    answer: Node = {"request": shown, "timestamp": int(time.time())}
    try:
        if not isinstance(request, dict):
            raise JolokiaError(400, ILLEGAL, "a request is a JSON object")
        return {**answer, "value": await _value(call, request), "status": 200}
    except JolokiaError as error:
        status, kind, text = error.status, error.kind, str(error)
    except ControlError as error:
        if error.code == UNAUTHENTICATED:
            raise
        status, kind, text = (403, SECURITY, str(error)) if error.code == FORBIDDEN else (500, STATE, str(error))
    return {**answer, "error_type": kind, "error": f"{kind} : {text}", "status": status}


async def _value(call: Call, request: Node) -> object:
    kind = str(request.get("type")).lower()
    if kind == "version":
        return {"agent": __version__, "protocol": PROTOCOL_VERSION, "info": {"product": "Spanwire"}}
    beans = await _beans(call)
    if kind == "list":
        return {DOMAIN: {bean.name.partition(":")[2]: _described(bean) for bean in beans}}
    name = request.get("mbean")
    if not isinstance(name, str):
        raise JolokiaError(400, ILLEGAL, "the request has no mbean")
    if kind == "search":
        return [bean.name for bean in _matching(beans, name)]
    if kind == "read":
        return await _read(call, beans, name, request.get("attribute"))
    if kind == "exec":
        return await _execute(call, beans, name, request)
    raise JolokiaError(403, SECURITY, f"requests of the type {kind[:40]} are not allowed")


async def _read(call: Call, beans: list[Bean], name: str, asked: object) -> object:
    """Return attributes of one bean, or of each bean that a pattern matches."""
    if "*" in name or "?" in name:
        matching = _matching(beans, name)
        if not matching:
            raise JolokiaError(404, NOT_FOUND, f"no bean matches {name[:200]}")
        return {bean.name: _attributes(bean, asked, is_single=False) for bean in matching}
    return _attributes(await _detailed(call, _bean(beans, name)), asked, is_single=True)


async def _detailed(call: Call, bean: Bean) -> Bean:
    """Return the bean of a queue or topic with the attributes that lists leave out."""
    if not bean.destination:
        return bean
    view = QUEUES if bean.kind == "queue" else TOPICS
    rows = rows_of(view, [await call.ask("destination", destination=bean.destination)])
    return bean if not rows else Bean(bean.name, {**bean.attributes, **_values(view, rows[0])}, bean.kind)


def _attributes(bean: Bean, asked: object, is_single: bool) -> object:
    if asked is None or asked == [] or asked == "":
        return bean.attributes
    names = asked if isinstance(asked, list) else [asked]
    values = {str(name): bean.attributes[name] for name in names if isinstance(name, str) and name in bean.attributes}
    if is_single and len(values) < len(names):
        missing = next(name for name in names if str(name) not in values)
        raise JolokiaError(404, NO_ATTRIBUTE, f"No such attribute: {str(missing)[:100]}")
    return values[asked] if is_single and isinstance(asked, str) else values


async def _execute(call: Call, beans: list[Bean], name: str, request: Node) -> object:
    """Run one of the listed operations of a bean."""
    bean = _bean(beans, name)
    operation = str(request.get("operation")).partition("(")[0]
    known = {number: one for (named, number), one in EXECUTABLE.get(bean.kind, {}).items() if named == operation}
    if not known:
        raise JolokiaError(403, SECURITY, f"the operation {operation[:60]} of this bean is not allowed")
    words = _words(request.get("arguments"))
    if len(words) not in known:
        counts = " or ".join(str(number) for number in sorted(known))
        raise JolokiaError(400, ILLEGAL, f"{operation} takes {counts} arguments here")
    execution = known[len(words)]
    command = execution.command
    if call.caller.role < COMMAND_ROLES[command]:
        raise JolokiaError(403, SECURITY, f"{operation} needs the role {COMMAND_ROLES[command].name.lower()}")
    result = await call.ask(command, **execution.arguments(bean.destination, words))
    first = result[0] if isinstance(result, list) and result else result
    value = first.get(execution.value) if isinstance(first, dict) and execution.value else None
    return bool(value) if execution.is_flag else value


def _words(arguments: object) -> list[str]:
    """Return the arguments of a request, which are texts and whole numbers."""
    if arguments is None:
        return []
    if not isinstance(arguments, list) or not all(
        isinstance(value, (str, int)) and not isinstance(value, bool) for value in arguments
    ):
        raise JolokiaError(400, ILLEGAL, "arguments is no list of texts and whole numbers")
    return [str(value) for value in arguments]


async def _beans(call: Call) -> list[Bean]:
    """Return all beans, the broker first."""
    overview = await broker_with_totals(call.view)
    broker = f"{DOMAIN}:type=Broker,brokerName={_quoted(str(overview['name']))}"
    beans = [Bean(broker, _values(BROKER, overview), BROKER_BEAN)]
    for row in rows_of(CONNECTORS, await call.status()):
        name = f"{broker},connector=clientConnectors,connectorName={_quoted(str(row['name']))}"
        beans.append(Bean(name, _values(CONNECTORS, row)))
    destinations = await call.view("destinations")
    for view in (QUEUES, TOPICS):
        for row in rows_of(view, destinations):
            qualified = str(row["destination"])
            shown = qualified.partition("://")[2]
            name = f"{broker},destinationType={TYPES[type_of(row)]},destinationName={_quoted(shown)}"
            kind = "queue" if view is QUEUES else "topic"
            beans.append(Bean(name, {"Name": shown, **_values(view, row)}, kind, qualified))
    return beans


def _values(view: ViewTable, row: Mapping[str, object]) -> Node:
    return {bean: row[name] for bean, name in view.beans() if name in row}


def _quoted(text: str) -> str:
    """Return a value of a bean's name, as ActiveMQ writes it."""
    return ILLEGAL_IN_NAMES.sub(lambda match: QUOTED.get(match[0], "_"), text)


def _parts(name: str) -> tuple[str, frozenset[str]]:
    """Return domain and properties of a name; the order of properties has no meaning."""
    domain, _, properties = name.partition(":")
    return domain, frozenset(properties.split(","))


def _bean(beans: list[Bean], name: str) -> Bean:
    """Return the bean of a name. Raises `JolokiaError` if there is none, or if two queues share the name."""
    wanted = _parts(name)
    same = [bean for bean in beans if _parts(bean.name) == wanted]
    if not same:
        raise JolokiaError(404, NOT_FOUND, name[:200])
    if len(same) > 1:
        raise JolokiaError(400, ILLEGAL, f"{len(same)} destinations have the name {name[:200]}")
    return same[0]


def _matching(beans: list[Bean], pattern: str) -> list[Bean]:
    """Return the beans that a pattern matches: in values of properties, or with ``*`` as the last property."""
    if len(pattern) > MAX_PATTERN or pattern.count("*") > MAX_WILDCARDS:
        raise JolokiaError(400, ILLEGAL, f"a pattern has at most {MAX_PATTERN} characters and {MAX_WILDCARDS} stars")
    domain, properties = _parts(pattern)
    is_open = "*" in properties
    tests = [re.compile(translate(one.replace("[", "[[]"))) for one in sorted(properties - {"*"}) if one]
    of_domain = re.compile(translate(domain.replace("[", "[[]")))
    return [bean for bean in beans if of_domain.match(DOMAIN) and _matches(_parts(bean.name)[1], tests, is_open)]


def _matches(properties: frozenset[str], tests: list[re.Pattern[str]], is_open: bool) -> bool:
    if not is_open and len(properties) != len(tests):
        return False
    return all(any(test.match(one) for one in properties) for test in tests)


def _described(bean: Bean) -> Node:
    """Return the description of a bean for ``list``."""
    attributes = {name: {"rw": False, "desc": name} for name in bean.attributes}
    operations: dict[str, list[Node]] = {}
    for (name, number), one in EXECUTABLE.get(bean.kind, {}).items():
        args = [{"name": f"p{index + 1}", "type": "java.lang.String", "desc": ""} for index in range(number)]
        operations.setdefault(name, []).append({"args": args, "ret": "java.lang.Object", "desc": one.command})
    return {
        "attr": attributes,
        "op": {name: forms[0] if len(forms) == 1 else forms for name, forms in operations.items()},
        "desc": "Spanwire",
    }


JOLOKIA_ROUTES: Final = (
    RouteRow("GET", PATH, Role.VIEW, by_path, "Jolokia: version"),
    RouteRow("GET", f"{PATH}/{{name:path}}", Role.VIEW, by_path, "Jolokia: version, list, search, read"),
    RouteRow("POST", PATH, Role.VIEW, by_body, "Jolokia: requests as JSON"),
)
