"""Everything that a soak tries, in slices that are noted: an interrupted night goes on with the slice that it was at.

    python -m tests.soak.night [--minutes 90] [--only seeds,kills] [--status] [--fresh]

Each part has a number of seeds, kills, inputs or minutes, and is done in slices. What a slice has printed last and how
long it took is a line of ``out/soak/night.jsonl``. A slice that fails ends the night with its command, and is tried
again by the next run. A night that is done is not done again without ``--fresh``, which a new version needs.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spanwire._build import version_text
from tests.bench.reports.origin import commit

ROOT: Final = Path(__file__).parents[2]
NOTES: Final = ROOT / "out" / "soak" / "night.jsonl"
TAIL: Final = 4096  # characters of a failed slice that are shown
PYTEST: Final = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout", "0")
PARALLEL: Final = ("-n", "2")
SEEDED: Final = tuple(
    f"tests/simulation/test_{name}.py"
    for name in ("broker_crash", "journal_crash", "network", "large_networks", "dry_runs", "resends")
)
AT_EACH_CALL: Final = tuple(
    f"tests/simulation/test_{name}.py"
    for name in ("crash_points", "disk_errors", "short_writes", "full_disk", "full_disk_drain", "move_crashes")
)
APART: Final = tuple(  # of the simulations; they have parts of their own
    f"--ignore={file}"
    for file in (
        *SEEDED,
        *AT_EACH_CALL,
        *(f"tests/simulation/test_{name}.py" for name in ("damage", "mesh", "take_overs", "exactly_once")),
    )
)
FUZZED: Final = ("openwire", "stomp", "xmpp", "selector", "websocket", "xstream", "documents", "requests")


@dataclass(frozen=True)
class Slice:
    """A command with what its environment says besides."""

    arguments: Sequence[str]
    environment: dict[str, str]

    def __str__(self) -> str:
        return shlex.join([*(f"{name}={value}" for name, value in self.environment.items()), *self.arguments])


@dataclass(frozen=True)
class Part:
    """``total`` of something, ``each`` in one slice."""

    name: str
    total: int
    each: int
    slice_of: Callable[[int, int], Slice]  # of the first and the count


def tests(*arguments: str, **environment: str) -> Slice:
    """A run of pytest."""
    return Slice([*PYTEST, *arguments], {f"SPANWIRE_{name.upper()}": value for name, value in environment.items()})


def module(name: str, *arguments: str) -> Slice:
    """A run of one of the soaks or fuzzers."""
    return Slice([sys.executable, "-m", f"tests.{name}", *arguments], {})


def whole(name: str, run: Slice) -> Part:
    """A part of one slice, or one that keeps its own state."""
    return Part(name, 1, 1, lambda _first, _count: run)


def fuzzed(target: str) -> Part:
    """A million inputs for one reader, with a seed for each slice."""
    return Part(
        f"fuzz {target}",
        1_000_000,
        50_000,
        lambda first, count: module(f"fuzz.fuzz_{target}", str(count), str(first // 50_000 + 1)),
    )


PARTS: Final = (
    Part("seeds", 5_000, 100, lambda first, count: tests(*PARALLEL, *SEEDED, first_seed=str(first), seeds=str(count))),
    Part(
        "damaged stores", 100_000, 5_000,
        lambda first, count: tests("tests/simulation/test_damage.py", first_damaged=str(first), damaged=str(count)),
    ),
    Part(
        "kills", 1_000, 50,
        lambda first, count: tests(
            "tests/faults/test_kill_cycles.py", kills=str(count), kill_seed=str(first // 50 + 1)
        ),
    ),
    Part("meshes", 10_000, 500, lambda first, count: tests(
        "tests/simulation/test_mesh.py::test_each_subscriber_in_a_mesh_of_four_gets_each_message_once",
        first_mesh=str(first), meshes=str(count),
    )),
    whole("every order of a mesh", tests("tests/simulation/test_mesh.py", meshes="1")),
    whole("every call to the disk", tests(
        *PARALLEL, *AT_EACH_CALL, crash_calls="2000", crash_each="60", errors_every="1",
    )),
    whole("other simulations", tests(*PARALLEL, "tests/simulation", *APART)),
    whole("every order of take-overs", tests("tests/simulation/test_take_overs.py", take_overs="all")),
    whole("exactly once", tests("tests/simulation/test_exactly_once.py", exactly_once_seeds="400")),
    whole("faults", tests(
        "-rs", "tests/faults", "--ignore", "tests/faults/test_kill_cycles.py", injected="all",
    )),
    whole("cursors and sinks", module("soak.exactly_once", "--kills", "100")),
    Part("scenarios on Classic", 500, 50, lambda first, count: module(
        "soak.differential", "--first", str(first), "--count", str(count),
    )),
    whole("take-overs", module("soak.takeovers", "--takeovers", "200")),
    *[fuzzed(target) for target in FUZZED],
    whole("idle connections", module("soak.idle_connections", "--count", "10000")),
    whole("slow sockets", module("soak.slow_sockets")),
    Part("minutes under load", 480, 160, lambda first, count: module(
        "soak.hours", "--minutes", str(count), *(() if first else ("--fresh",)),
    )),
)  # fmt: skip


def read_notes(notes: Path) -> list[dict[str, object]]:
    """The slices that were done. A line that was cut off counts for nothing."""
    found: list[dict[str, object]] = []
    for line in notes.read_text("utf-8").splitlines() if notes.exists() else ():
        with suppress(ValueError):
            found.append(json.loads(line))
    return found


def done_of(notes: Path) -> Counter[str]:
    """How much of each part was done."""
    done: Counter[str] = Counter()
    for note in read_notes(notes):
        done[str(note["part"])] += int(str(note["count"]))
    return done


def is_done(parts: Sequence[Part], notes: Path) -> bool:
    """Return True if nothing is left, so that another run would try nothing."""
    done = done_of(notes)
    return all(done[part.name] >= part.total for part in parts)


def run_slice(part: Part, first: int, count: int, notes: Path) -> bool:
    """Run one slice, and note it if it succeeds."""
    chosen = part.slice_of(first, count)
    began = time.monotonic()
    ended = subprocess.run(
        chosen.arguments, cwd=ROOT, env={**os.environ, **chosen.environment}, text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    if ended.returncode:
        sys.stdout.write(f"{ended.stdout[-TAIL:]}\n{part.name} from {first} on failed: {chosen}\n")
        return False
    said = [line for line in ended.stdout.splitlines() if line.strip()]
    note = {
        "part": part.name, "first": first, "count": count, "seconds": round(time.monotonic() - began, 1),
        "commit": commit(), "build": version_text(), "said": said[-1] if said else "",
    }  # fmt: skip
    notes.parent.mkdir(parents=True, exist_ok=True)
    with notes.open("a", encoding="utf-8") as file:
        file.write("\n" + json.dumps(note))  # behind a line that was cut off, too
    sys.stdout.write(f"{part.name}: {first + count} of {part.total}, {note['said']}\n")
    sys.stdout.flush()
    return True


def go_on(parts: Sequence[Part], notes: Path, minutes: float) -> bool:
    """Run slices until all are done, one fails, or the time is over before a next one. False after a failure."""
    end = time.monotonic() + minutes * 60
    done = done_of(notes)
    for part in parts:
        for first in range(done[part.name], part.total, part.each):
            if time.monotonic() >= end:
                return True
            if not run_slice(part, first, min(part.each, part.total - first), notes):
                return False
    return True


def status(parts: Sequence[Part], notes: Path) -> str:
    """A line for each part: what was done of how much, and in how many minutes."""
    done, all_notes = done_of(notes), read_notes(notes)
    lines = []
    for part in parts:
        seconds = sum(float(str(note["seconds"])) for note in all_notes if note["part"] == part.name)
        lines.append(f"{part.name:28} {done[part.name]:>9,} of {part.total:>9,} {seconds / 60:8.1f} min\n")
    return "".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description="A night of every soak, in slices that are noted.")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no slice after so many")
    parser.add_argument("--only", help="names of parts, with commas")
    parser.add_argument("--status", action="store_true", help="say what was done, and run nothing")
    parser.add_argument("--fresh", action="store_true", help="forget what was done")
    options = parser.parse_args()
    names = [part.name for part in PARTS]
    chosen = options.only.split(",") if options.only else names
    for name in chosen:
        if name not in names:
            parser.error(f"no part {name!r}; the parts are {', '.join(names)}")
    parts = [part for part in PARTS if part.name in chosen]
    if options.status:
        sys.stdout.write(status(parts, NOTES))
        return 0
    if options.fresh:
        NOTES.unlink(missing_ok=True)
    if is_done(parts, NOTES):
        commits = ", ".join(sorted({str(note["commit"]) for note in read_notes(NOTES)}))
        sys.stdout.write(f"everything was done, by {commits}; --fresh begins anew\n")
        return 1
    went_well = go_on(parts, NOTES, options.minutes)
    sys.stdout.write(status(parts, NOTES))
    return 0 if went_well else 1


if __name__ == "__main__":
    sys.exit(main())
