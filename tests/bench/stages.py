"""The instructions for a message by stages of its way through the broker, from what callgrind wrote.

A function of Spanwire belongs to a stage by its name (`STAGES`). The interpreter, the allocator and the C library are
used by all stages: what such a function takes is passed on to its callers, in proportion to what callgrind counted for
each call, until it reaches a function of Spanwire. What reaches none is the event loop's. ``memcpy`` is left out, as
in `tests.bench.instructions`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

LOOP = "read"  # the stage of the event loop, the sockets and all that no function of Spanwire called
REST = "other"

# The first expression that is found in the name of a function decides. mypyc names a function by its module, class and
# name, and leaves packages out as far as the module is known without them.
STAGES: list[tuple[str, str]] = [
    (LOOP, r"CPy(Def|Py)_(pump|turn|clock|environment|timers|rationing|admission)___"),
    ("acknowledge", r"___(ack_run|take_run|take_ack|take_numbered|_drop_front|_?settle\w*|acknowledge\w*|Ack\w+)"),
    ("acknowledge", r"CPyDef_(acks|acknowledgements|routing___acknowledgements)___|MessageReference_clear"),
    ("account", r"CPyDef_(flow_control|memory_usage|access_control|connection_output|unsynced_bytes)___"),
    ("account", r"___(hold|release|release_all|count_forms|note_dispatched|_turn|next_order)$"),
    ("scan", r"CPyDef_(message_layout|octets|message|ids|send_headers|encoding|stomp___destinations)___"),
    ("scan", r"MessageScanner|MessageFormat"),
    ("scan", r"_(Message|MessageId)_setup$|CPyDef_(messages___message_format|model___message)___"),
    ("frame", r"codec___|CPyDef__marshallers|FrameDecoder|FrameBuffer|loose___"),
    ("enqueue", r"CPyDef_(queue|pending_messages|pending_list|page|message_reference|topic|policy_topic)___"),
    ("dispatch", r"CPyDef_(dispatchers|queue_consumers|selective_dispatch|dispatch_policies)___|___Subscription___"),
    ("dispatch", r"CPyDef_(in_flight|consumers|in_flight_index)___"),
    ("copy", r"___(append_dispatch|dispatch_chunks)$|OpenWireConsumer|OutputBuffer|StompSubscription"),
    ("copy", r"___(data_to_send|unsent|output_progress|take_dirty)$"),
    ("route", r"CPy(Def|Py)_"),
]
ORDER = ["read", "frame", "scan", "route", "account", "enqueue", "dispatch", "copy", "acknowledge", REST]

COPIES = re.compile(r"_*mem(cpy|move)")
OWN = re.compile(r"CPy(Def|Py)_")
NAMED = re.compile(r"\((\d+)\)(?: (.*))?")
RECURSION = re.compile(r"'\d+$")
MOST_CALLERS = 200  # steps from a function up to its callers; a chain of calls through the interpreter is shorter
NEGLIGIBLE = 1.0  # instructions that are no longer passed on


@dataclass
class Profile:
    """What callgrind counted: instructions of each function, and of each call with all that it led to."""

    own: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    calls: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))

    def per_message(self, fewer: Profile, messages: int) -> Profile:
        """What is more than in ``fewer``, for each of ``messages``."""
        more = Profile()
        for name, count in self.own.items():
            more.own[name] = (count - fewer.own.get(name, 0)) / messages
        for call, count in self.calls.items():
            more.calls[call] = (count - fewer.calls.get(call, 0)) / messages
        return more


def read_profile(written: Path) -> Profile:
    """Read a callgrind file; functions that call themselves count as one."""
    profile = Profile()
    names: dict[str, str] = {}
    current = called = ""
    is_call = False

    def named(text: str) -> str:
        found = NAMED.match(text)
        if found is None:
            return RECURSION.sub("", text)
        if found[2] is not None:
            names[found[1]] = RECURSION.sub("", found[2])
        return names[found[1]]

    with written.open() as lines:
        for line in lines:
            if line.startswith("fn="):
                current = named(line[3:].rstrip("\n"))
            elif line.startswith("cfn="):
                called = named(line[4:].rstrip("\n"))
            elif line.startswith("calls="):
                is_call = True
            elif line[0] in "0123456789+-*" and current:
                position, _, count = line.partition(" ")
                if position and count.strip():
                    if is_call:
                        profile.calls[current, called] += int(count)
                    else:
                        profile.own[current] += int(count)
                is_call = False
    return profile


def by_function(profile: Profile) -> dict[str, float]:
    """Instructions of Spanwire's functions, with what the functions of others took for them; `LOOP` for the rest."""
    callers: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for (caller, called), count in profile.calls.items():
        if count > 0 and caller != called:
            callers[called].append((caller, count))
    found: dict[str, float] = defaultdict(float)
    passed = {name: count for name, count in profile.own.items() if not COPIES.match(name)}
    for _ in range(MOST_CALLERS):
        following: dict[str, float] = defaultdict(float)
        for name, count in passed.items():
            if OWN.match(name):
                found[name] += count
                continue
            whole = sum(share for _, share in callers[name])
            if whole <= 0:
                found[LOOP] += count
            for caller, share in callers[name]:
                following[caller] += count * share / whole
        passed = following
        if sum(map(abs, passed.values())) < NEGLIGIBLE:
            break
    found[REST] += sum(passed.values())  # of calls in a circle
    return found


def stage_of(function: str) -> str:
    """The stage of a function."""
    for stage, expression in STAGES:
        if function == stage or re.search(expression, function):
            return stage
    return REST


def table(profile: Profile, functions: int = 4) -> list[str]:
    """One line for each stage, below it those of its ``functions`` that take most."""
    stages: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for name, count in by_function(profile).items():
        stages[stage_of(name)].append((count, name))
    lines: list[str] = []
    for stage in ORDER:
        lines.append(f"  {stage:12} {sum(count for count, _ in stages[stage]):8,.0f}")
        for count, name in sorted(stages[stage], reverse=True)[:functions]:
            if count > 0:
                lines.append(f"      {count:8,.0f}  {name.removeprefix('CPyDef_')}")
    return lines
