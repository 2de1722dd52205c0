"""The requests of Jolokia: reading, beans, and answers.

Requests come as GET (``/api/jolokia/read/MBEAN/ATTRIBUTE``) or as POST of one object or a list of objects. A GET
changes no state, so ``exec`` is a POST.
"""

from __future__ import annotations

import json
import re
import time
from http import HTTPStatus
from typing import Final

from starlette.responses import JSONResponse, Response

from spanwire import __version__
from spanwire.management.beans.bean import Bean
from spanwire.management.beans.errors import ILLEGAL, SECURITY, STATE, BeanError
from spanwire.management.beans.executions import Execution, Node
from spanwire.management.beans.invocation import (
    all_beans,
    execute,
    matching_beans,
    one_bean,
    operations_of,
    read_attributes,
    write_attribute,
)
from spanwire.management.beans.names import DOMAIN, Pattern
from spanwire.management.beans.operations import WRITABLE
from spanwire.management.control_client import ControlError
from spanwire.management.handles import FORBIDDEN, UNAUTHENTICATED
from spanwire.management.tables.operation_table import Role
from spanwire.web.calls import Call, RouteRow
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
        return JSONResponse([await _answered(call, one) for one in content])
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
    """Return the answer to one request; errors are part of the answer, but for a login that the broker refuses."""
    shown = request if isinstance(request, dict) else {}
    answer: Node = {"request": shown, "timestamp": int(time.time())}
    try:
        if not isinstance(request, dict):
            raise BeanError(400, ILLEGAL, "a request is a JSON object")
        return {**answer, "value": await _value(call, request), "status": 200}
    except BeanError as error:
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
        return {DOMAIN: {bean.name.partition(":")[2]: _described(bean) for bean in await all_beans(call, EVERYTHING)}}
    name = request.get("mbean")
    if not isinstance(name, str):
        raise BeanError(400, ILLEGAL, "the request has no mbean")
    if kind == "search":
        return [bean.name for bean in await matching_beans(call, name)]
    if kind == "read":
        return await read_attributes(call, name, request.get("attribute"))
    if kind == "exec":
        bean, broker = await one_bean(call, name)
        return await execute(call, bean, broker, str(request.get("operation")), request.get("arguments") or [])
    if kind == "write":
        return await write_attribute(call, name, request.get("attribute"), request.get("value"))
    raise BeanError(403, SECURITY, f"requests of the type {kind[:40]} are not allowed")


def _described(bean: Bean) -> Node:
    """Return the description of a bean for ``list``."""
    writable = WRITABLE.get(bean.kind, {})
    attributes = {name: {"rw": name in writable, "desc": name} for name in bean.attributes}
    operations: dict[str, list[Node]] = {}
    for (name, number), one in operations_of(bean.kind).items():
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
