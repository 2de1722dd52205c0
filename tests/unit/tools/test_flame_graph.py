"""Names in a flame graph, shown with lines as py-spy writes them."""

from __future__ import annotations

import pytest

from tests.bench.flame_graph import readable

LIBRARY = "(26c734967165ab001e6a__mypyc.cpython-311-x86_64-linux-gnu.so)"


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (f"CPyDef_queue___Queue____fill {LIBRARY} (93 samples, 0.69%)", "queue.Queue._fill (93 samples, 0.69%)"),
        (f"CPyDef_dispatch___append {LIBRARY}", "dispatch.append"),
        (f"CPyBytes_Compare {LIBRARY}", f"CPyBytes_Compare {LIBRARY}"),
        ("malloc (libc.so.6)", "malloc (libc.so.6)"),
        ("now (/a/lib/site-packages/spanwire/clock.py)", "now (spanwire/clock.py)"),
    ],
)
def test_a_compiled_function_has_the_name_that_the_sources_give_it(written: str, read: str) -> None:
    assert readable(f"<title>{written}</title>", "a queue") == f"<title>{read}</title>"


def test_the_title_is_that_of_the_workload() -> None:
    picture = '<text id="title" fill="rgb(0,0,0)">record --native</text><text>record</text>'
    assert readable(picture, "a queue") == '<text id="title" fill="rgb(0,0,0)">a queue</text><text>record</text>'
