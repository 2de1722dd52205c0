"""A stranger who types the commands of docs/operations/traces.md finds the spans that the page names at a collector."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Final

from tests.support.otlp_receiver import OtlpReceiver
from tests.support.terminals import Terminals, dialogues, pattern

DOCS: Final = Path(__file__).parents[2] / "docs"
PAGE: Final = (DOCS / "operations" / "traces.md").read_text("utf-8")
TITLED: Final = re.compile(r'^( *)```\w+ title="([\w.]+)"\n(.*?)^ *```', re.DOTALL | re.MULTILINE)
BLOCKS: Final = {title: textwrap.dedent(text) for _, title, text in TITLED.findall(PAGE)}
COLLECTOR: Final = "http://localhost:4318"


def test_the_commands_of_the_page_bring_the_spans_that_it_names(tmp_path: Path) -> None:
    with OtlpReceiver() as collector:
        file = BLOCKS["traces.toml"].replace(COLLECTOR, collector.endpoint)
        terminals = Terminals(tmp_path, {"traces.toml": file})
        try:
            ((start, _),) = dialogues(BLOCKS["broker"])
            terminals.begin(start, "started")
            for command, shown in dialogues(BLOCKS["client"]):
                printed = terminals.run(command)
                assert re.fullmatch("\n".join(map(pattern, shown)), printed.strip("\n")), (command, printed)
            named = set(re.findall(r"`(\w+ ORDERS)`", PAGE))
            assert len(named) == 4
            spans = collector.awaits(lambda spans: named <= {span.name for span in spans})
        finally:
            terminals.close()
    assert len({span.trace_id for span in spans}) == 1
