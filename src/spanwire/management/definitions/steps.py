"""Steps from a broker to a document: requests of the control socket, in order.

No object is removed: objects of the broker beyond the document stay. A step with a danger for messages, or impossible
on a running broker, has an obstacle in place of requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from spanwire.management.definitions.differences import Difference
from spanwire.management.definitions.kinds import (
    BRIDGE,
    CONNECTOR,
    LEFT_OUT,
    LIMITS,
    LISTS,
    LOGGER,
    NETWORK_CONNECTOR,
    QUEUE,
    SETTINGS,
    STARTED,
    STRATEGY,
    SUBSCRIPTION,
    TOPIC,
    Values,
)

Request = tuple[str, dict[str, object]]  # the command and its arguments
DESTINATION_SETTINGS: Final = ("memory_limit_bytes", "producer_flow_control", "blocked_warning_ms", "audits_copies")
CONFIGURED_ONLY: Final = ("sslContext", "publishedAddressPolicy")  # elements, which no operator can give a connector


@dataclass(frozen=True, slots=True)
class Step:
    """One object with the requests for the change, or with the obstacle to the change.

    ``undo`` are requests that put the object back if a request after the first one is refused.
    """

    text: str
    requests: tuple[Request, ...] = ()
    obstacle: str = ""
    undo: tuple[Request, ...] = ()


def steps(differences: list[Difference], login: Mapping[str, str], *, replaces: bool = False) -> list[Step]:
    """Return the steps for differences between what a broker has and what a document wants.

    Args:
        differences: ``before`` is the broker's, ``after`` the document's.
        login: ``user`` and ``password`` for new durable subscriptions, where the broker asks for them.
        replaces: remove connectors with another address or other settings, close the connections, add the connectors
            anew.
    """
    found = []
    for difference in differences:
        if difference.after is None:
            continue
        title = difference.kind.title(difference.key)
        word = "add" if difference.before is None else "change"
        shown = f"{word} {title}" + (f": {', '.join(difference.changed)}" if difference.changed else "")
        requests, obstacle = _requests(difference, login, replaces)
        if obstacle:
            found.append(Step(shown, obstacle=obstacle))
        else:
            found.append(Step(shown, tuple(requests), undo=_undo(difference, requests)))
    return found


def _undo(difference: Difference, requests: list[Request]) -> tuple[Request, ...]:
    """Return the requests that add a removed connector as it was; secrets are those of the document."""
    before, after = difference.before, difference.after
    if before is None or after is None or not requests[0][0].endswith("-remove"):
        return ()
    prefix = requests[0][0].removesuffix("-remove")
    settings, known = before[SETTINGS], after[SETTINGS]
    assert isinstance(settings, dict) and isinstance(known, dict)
    secrets = {name: known[name] for name in _secrets(before) if name in known}
    lists = {one: before[one] for one in LISTS if before.get(one)}
    name = difference.key[0]
    added: Request = (
        f"{prefix}-add",
        {"uri": before["uri"], "name": name, "settings": {**settings, **secrets, **lists}},
    )
    return (added,) if before[STARTED] else (added, (f"{prefix}-stop", {"connectors": [name]}))


def _unknown(before: Values, after: Values) -> list[str]:
    """Return the secrets of a connector that a document does not have."""
    settings = after[SETTINGS]
    assert isinstance(settings, dict)
    return [name for name in _secrets(before) if name not in settings]


def _secrets(values: Values) -> list[str]:
    left_out = values[LEFT_OUT]
    assert isinstance(left_out, list)
    return [str(name) for name in left_out]


def _requests(difference: Difference, login: Mapping[str, str], replaces: bool) -> tuple[list[Request], str]:
    """Return the requests for one object, and the obstacle."""
    kind, before, after = difference.kind, difference.before, difference.after
    assert after is not None
    if kind is LIMITS:
        return [("limits", {name: after[name] for name in difference.changed})], ""
    if kind in (QUEUE, TOPIC):
        return _destination(difference, after), ""
    if kind is SUBSCRIPTION:
        return _subscription(difference, after, login)
    if kind in (CONNECTOR, NETWORK_CONNECTOR):
        return _connector(difference, after, replaces)
    name = difference.key[0]
    if kind is LOGGER:
        return [("log-level", {"logger": name, "level": after["level"]})], ""
    if kind is BRIDGE:
        if before is None:
            return [], "its definition is not in the document: create it with spanwire bridge create"
        return [("bridge-pause" if after["paused"] else "bridge-resume", {"bridges": [name]})], ""
    assert kind is STRATEGY
    if before is None:
        return [], "it comes with the policy entry of its pattern: add that to the configuration"
    return [("strategy-change", {"name": name, **{field: after[field] for field in difference.changed}})], ""


def _destination(difference: Difference, after: Values) -> list[Request]:
    name = f"{difference.kind.name}://{difference.key[0]}"
    named: dict[str, object] = {"destinations": [name]}
    # What a new one has comes from the policies of its broker, and is compared when it is there.
    if difference.before is None:
        return [("create", named)]
    changed = difference.changed
    requests: list[Request] = []
    settings: dict[str, object] = {field: after[field] for field in DESTINATION_SETTINGS if field in changed}
    if settings:
        requests.append(("settings", {**named, **settings}))
    if "statistics_enabled" in changed:
        requests.append(("statistics", {**named, "enabled": after["statistics_enabled"]}))
    if "paused" in changed:
        requests.append(("pause" if after["paused"] else "resume", named))
    return requests


def _subscription(difference: Difference, after: Values, login: Mapping[str, str]) -> tuple[list[Request], str]:
    client_id, name = difference.key
    if difference.before is not None:
        return [], (
            "it is there with another topic, selector or noLocal, and may have messages: "
            f"spanwire subscription remove {name} --client-id {client_id}"
        )
    if after["no_local"]:
        return [], "it has noLocal, which only its own client can ask for: let that connect"
    arguments: dict[str, object] = {"client_id": client_id, "name": name, "topic": after["topic"], **login}
    if after["selector"]:
        arguments["selector"] = after["selector"]
    return [("create-subscription", arguments)], ""


def _connector(difference: Difference, after: Values, replaces: bool) -> tuple[list[Request], str]:
    prefix = "connector" if difference.kind is CONNECTOR else "network"
    name = difference.key[0]
    named: dict[str, object] = {"connectors": [name]}
    if difference.before is not None and difference.changed == [STARTED]:
        return [(f"{prefix}-{'start' if after[STARTED] else 'stop'}", named)], ""
    missing = _missing(after)
    if missing:
        return [], missing
    if difference.before is not None and not replaces:
        return [], "its connections would end: --replace removes it and adds it anew"
    unknown = [] if difference.before is None else _unknown(difference.before, after)
    if unknown:
        return [], (
            f"{', '.join(unknown)} of the present one is not in the document, so it could not be put back if the new "
            f"one were refused: remove it with spanwire {prefix} remove, and import again"
        )
    settings = {**after[SETTINGS], **{one: after[one] for one in LISTS if after.get(one)}}  # type: ignore[dict-item]
    requests: list[Request] = [] if difference.before is None else [(f"{prefix}-remove", named)]
    requests.append((f"{prefix}-add", {"uri": after["uri"], "name": name, "settings": settings}))
    if not after[STARTED]:
        requests.append((f"{prefix}-stop", named))
    return requests, ""


def _missing(after: Values) -> str:
    """Return the advice about secrets missing from the document, "" if the document has all."""
    left_out, settings = after[LEFT_OUT], after[SETTINGS]
    assert isinstance(left_out, list) and isinstance(settings, dict)
    missing = [name for name in left_out if name not in settings]
    if not missing:
        return ""
    if any(name in CONFIGURED_ONLY for name in missing):
        return f"{', '.join(missing)}: only a configuration can say it: add the connector there"
    names = ", ".join(missing)
    return f"{names} left out of the document: write it into settings or uri, and take its name out of left_out"
