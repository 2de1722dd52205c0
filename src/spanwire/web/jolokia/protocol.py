"""The requests of Jolokia: reads them, finds their beans, and answers.

Requests come as GET (``/api/jolokia/read/MBEAN/ATTRIBUTE``) or as POST of one object or a list of objects. A GET
changes nothing, so ``exec`` is a POST.
"""

from __future__ import annotations

import json
import re
import time
from http import HTTPStatus
from typing import Final

from starlette.responses import JSONResponse, Response

from spanwire import __version__
from spanwire.management.control_client import ControlError
from spanwire.management.handles import FORBIDDEN, UNAUTHENTICATED
from spanwire.management.tables.operation_table import COMMAND_ROLES, READING, Role
from spanwire.web.calls import Call, RouteRow
from spanwire.web.jolokia.bean import BROKER_KEYS, Bean
from spanwire.web.jolokia.broker_bean import broker_bean
from spanwire.web.jolokia.errors import ILLEGAL, NO_ATTRIBUTE, NOT_FOUND, SECURITY, STATE, JolokiaError
from spanwire.web.jolokia.executions import Answer, Execution, Node
from spanwire.web.jolokia.families import FAMILIES
from spanwire.web.jolokia.names import DOMAIN, Pattern, is_pattern, parts
from spanwire.web.jolokia.operations import ANSWERS, EXECUTABLE, WRITABLE
from spanwire.web.problems import ProblemError

PATH: Final = "/api/jolokia"
PROTOCOL_VERSION: Final = "7.2"
MAX_REQUESTS: Final = 100  # requests in one list
JSON_TYPES: Final = frozenset({"application/json", "text/json"})  # what no form of a page can send
ESCAPED: Final = re.compile(r"!(.)|/")
EVERYTHING: Final = Pattern.of("*:*")


async def by_path(call: Call) -> Response:
    """Answer a request in the path."""
    request = request_of(split_path(str(call.request.path_params.get("name", "")).strip("/")))
    if request["type"] in ("exec", "write"):
        raise ProblemError(HTTPStatus.METHOD_NOT_ALLOWED, f"{request['type']} is a POST, because a GET changes nothing")
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
    if kind == "list":
        return {DOMAIN: {bean.name.partition(":")[2]: _described(bean) for bean in await _beans(call, EVERYTHING)}}
    name = request.get("mbean")
    if not isinstance(name, str):
        raise JolokiaError(400, ILLEGAL, "the request has no mbean")
    if kind == "search":
        return [bean.name for bean in await _matching(call, name)]
    if kind == "read":
        return await _read(call, name, request.get("attribute"))
    if kind == "exec":
        return await _execute(call, name, request)
    if kind == "write":
        return await _write(call, name, request)
    raise JolokiaError(403, SECURITY, f"requests of the type {kind[:40]} are not allowed")


async def _matching(call: Call, name: str) -> list[Bean]:
    pattern = _pattern(name)
    return [bean for bean in await _beans(call, pattern) if pattern.matches(bean.name)]


async def _read(call: Call, name: str, asked: object) -> object:
    """Return attributes of one bean, or of each bean that a pattern matches."""
    if is_pattern(name):
        matching = await _matching(call, name)
        if not matching:
            raise JolokiaError(404, NOT_FOUND, f"no bean matches {name[:200]}")
        return {bean.name: _attributes(bean.attributes, asked, is_single=False) for bean in matching}
    bean, broker = await _bean(call, name)
    attributes = bean.attributes
    names = asked if isinstance(asked, list) else [asked]
    if bean.detail is not None and (not asked or any(str(one) not in attributes for one in names)):
        attributes = {**attributes, **await bean.detail(call, broker)}
    return _attributes(attributes, asked, is_single=True)


def _attributes(attributes: Node, asked: object, is_single: bool) -> object:
    if asked is None or asked == [] or asked == "":
        return attributes
    names = asked if isinstance(asked, list) else [asked]
    values = {str(name): attributes[name] for name in names if isinstance(name, str) and name in attributes}
    if is_single and len(values) < len(names):
        missing = next(name for name in names if str(name) not in values)
        raise JolokiaError(404, NO_ATTRIBUTE, f"No such attribute: {str(missing)[:100]}")
    return values[asked] if is_single and isinstance(asked, str) else values


async def _execute(call: Call, name: str, request: Node) -> object:
    """Run one of the listed operations of a bean."""
    bean, broker = await _bean(call, name)
    operation = str(request.get("operation")).partition("(")[0]
    known = {number: one for (named, number), one in _operations(bean.kind).items() if named == operation}
    if not known:
        raise JolokiaError(403, SECURITY, f"the operation {operation[:60]} of this bean is not allowed")
    arguments = request.get("arguments") or []
    if not isinstance(arguments, list) or len(arguments) not in known:
        counts = " or ".join(str(number) for number in sorted(known))
        raise JolokiaError(400, ILLEGAL, f"{operation} takes {counts} arguments here")
    execution = known[len(arguments)]
    words = _words(arguments, takes_objects=isinstance(execution, Execution) and execution.takes_objects)
    if not isinstance(execution, Execution):
        details = {} if bean.detail is None else await bean.detail(call, broker)
        return execution({**bean.attributes, **details}, words)
    result = await _asked(call, bean, operation, execution, words)
    if execution.shown is not None:
        return execution.shown(result, broker, words)
    first = result[0] if isinstance(result, list) and result else result
    value = first.get(execution.value) if isinstance(first, dict) and execution.value else None
    return bool(value) if execution.is_flag else value


async def _write(call: Call, name: str, request: Node) -> object:
    """Write one of the listed attributes of a bean, and return its value before."""
    bean, _ = await _bean(call, name)
    attribute = request.get("attribute")
    execution = WRITABLE.get(bean.kind, {}).get(str(attribute))
    if execution is None:
        raise JolokiaError(403, SECURITY, f"the attribute {str(attribute)[:60]} of this bean cannot be written")
    word = _words([request.get("value")])[0]
    before = await _read(call, name, attribute)
    await _asked(call, bean, f"writing {attribute}", execution, [word])
    return before


async def _asked(call: Call, bean: Bean, operation: str, execution: Execution, words: list[str]) -> object:
    """Return the broker's answer to an operation. Raises `JolokiaError` if the caller's role is too low."""
    command = execution.command
    if call.caller.role < COMMAND_ROLES[command]:
        raise JolokiaError(403, SECURITY, f"{operation} needs the role {COMMAND_ROLES[command].name.lower()}")
    arguments = execution.arguments(bean.subject or {}, words)
    return await (call.ask(command, **arguments) if arguments or command not in READING else call.view(command))


def _operations(kind: str) -> dict[tuple[str, int], Execution | Answer]:
    return {**EXECUTABLE.get(kind, {}), **ANSWERS.get(kind, {})}


def _words(arguments: list[object], *, takes_objects: bool = False) -> list[str]:
    """Return the arguments of a request as texts: true and false in small letters, and objects as JSON."""
    types = (str, int, dict) if takes_objects else (str, int)
    if not all(isinstance(value, types) for value in arguments):
        raise JolokiaError(400, ILLEGAL, "arguments are texts, whole numbers, true and false")
    return [value if isinstance(value, str) else json.dumps(value) for value in arguments]


async def _beans(call: Call, pattern: Pattern) -> list[Bean]:
    """Return the beans whose names may match a pattern, the broker first."""
    broker = await broker_bean(call)
    beans = [broker] if pattern.may_match(frozenset(BROKER_KEYS)) else []
    for family in FAMILIES:
        if pattern.may_match(family.keys) and (not family.named or family.named in pattern.keys):
            beans += await family.load(call, broker.name)
    return beans


def _pattern(name: str) -> Pattern:
    try:
        return Pattern.of(name)
    except ValueError as error:
        raise JolokiaError(400, ILLEGAL, str(error)) from error


async def _bean(call: Call, name: str) -> tuple[Bean, str]:
    """Return the bean of a name, and the name of the broker's.

    Raises:
        JolokiaError: there is none, or two queues share the name
    """
    wanted = parts(name)
    keys = frozenset(one.partition("=")[0] for one in wanted[1])
    broker = await broker_bean(call)
    beans = [broker] if keys == frozenset(BROKER_KEYS) else []
    for family in FAMILIES:
        if keys == family.keys:
            beans += await family.load(call, broker.name)
    same = [bean for bean in beans if parts(bean.name) == wanted]
    if not same:
        raise JolokiaError(404, NOT_FOUND, name[:200])
    if len(same) > 1:
        raise JolokiaError(400, ILLEGAL, f"{len(same)} objects have the name {name[:200]}")
    return same[0], broker.name


def _described(bean: Bean) -> Node:
    """Return the description of a bean for ``list``."""
    writable = WRITABLE.get(bean.kind, {})
    attributes = {name: {"rw": name in writable, "desc": name} for name in bean.attributes}
    operations: dict[str, list[Node]] = {}
    for (name, number), one in _operations(bean.kind).items():
        args = [{"name": f"p{index + 1}", "type": "java.lang.String", "desc": ""} for index in range(number)]
        operations.setdefault(name, []).append(
            {"args": args, "ret": "java.lang.Object", "desc": one.command if isinstance(one, Execution) else name}
        )
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
