"""The budget of a message by stages, from a callgrind file with known costs."""

from __future__ import annotations

from pathlib import Path

from tests.bench.stages import by_function, read_profile, stage_of, table

# Two functions of Spanwire call the allocator, one of them three times as much; `main` of the loop calls both.
PLANTED = """\
# callgrind format
version: 1
positions: line
events: Ir
summary: 2650

ob=(1) /usr/bin/python
fl=(1) ???
fn=(1) main
0 100
cfn=(2) CPyDef_ack_run___AckReader___add
calls=10 0
0 700
cfn=(3) CPyDef_message_layout___MessageScanner___scan
calls=10 0
0 1850

fn=(2)
0 400
cfn=(4) PyBytes_FromStringAndSize
calls=10 0
0 300

fn=(3)
+3 600
* 50
cfn=(4)
calls=10 0
0 900
cfn=(5) __memcpy_avx_unaligned_erms
calls=1 0
0 300

fn=(4)
0 800
cfn=(6) malloc'2
calls=20 0
0 400

fn=(6)
0 400

fn=(5)
0 300

totals: 2650
"""


def planted(tmp_path: Path, name: str, factor: int) -> Path:
    """The file, with every cost ``factor`` times as large."""
    written = tmp_path / name
    lines = [
        f"{line.split()[0]} {int(line.split()[1]) * factor}" if line[:1] in "0+*" and len(line.split()) == 2 else line
        for line in PLANTED.splitlines()
    ]
    written.write_text("\n".join(lines) + "\n")
    return written


def test_what_the_allocator_takes_belongs_to_the_functions_that_call_it(tmp_path: Path) -> None:
    profile = read_profile(planted(tmp_path, "callgrind", 1))
    found = by_function(profile)
    assert found["CPyDef_ack_run___AckReader___add"] == 400 + 1200 / 4
    assert found["CPyDef_message_layout___MessageScanner___scan"] == 650 + 1200 * 3 / 4
    assert found["read"] == 100
    assert sum(found.values()) == sum(profile.own.values()) - 300  # all but what copies memory


def test_the_difference_of_two_runs_is_for_each_message(tmp_path: Path) -> None:
    few, more = read_profile(planted(tmp_path, "few", 1)), read_profile(planted(tmp_path, "more", 3))
    found = by_function(more.per_message(few, 20))
    assert found["CPyDef_ack_run___AckReader___add"] == 70
    assert found["CPyDef_message_layout___MessageScanner___scan"] == 155


def test_the_table_has_each_stage_with_its_functions(tmp_path: Path) -> None:
    lines = table(read_profile(planted(tmp_path, "callgrind", 1)))
    assert [line.split() for line in lines if line.split()[1] != "0"] == [
        ["read", "100"],
        ["100", "read"],
        ["scan", "1,550"],
        ["1,550", "message_layout___MessageScanner___scan"],
        ["acknowledge", "700"],
        ["700", "ack_run___AckReader___add"],
    ]


def test_functions_belong_to_the_stage_of_their_module() -> None:
    assert stage_of("CPyDef_memory_usage___MemoryUsage___takes") == "account"
    assert stage_of("CPyDef_dispatch___append_dispatch") == "copy"
    assert stage_of("CPyDef_openwire___codec___frames___FrameBuffer___size_at") == "frame"
    assert stage_of("CPyDef_stomp___subscription___StompSubscription___dispatch") == "copy"
    assert stage_of("CPyDef_message_router___MessageRouter___send") == "route"
    assert stage_of("PyObject_Malloc") == "other"
