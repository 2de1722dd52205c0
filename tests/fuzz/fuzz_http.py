"""Every route of the HTTP API with requests made from its OpenAPI document, by schemathesis against a real broker.

The servlets for messages follow, by a document of their own (`tests.fuzz.servlet_document`).

    python -m tests.fuzz.fuzz_http SCHEMATHESIS [EXAMPLES [SEED [PATHS]]]

SCHEMATHESIS is the program, in an environment of its own (`make fuzz-http`): it adds seconds to each start of pytest
where it is installed. PATHS is a regular expression for the only paths. Ends with its status: 0 if each answer was one
that the document describes, and no request that the document forbids was accepted.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.fuzz.servlet_document import document
from tests.service.started import TIMEOUT_S, Started

USER: Final = "anna:a-4711"
USERS: Final = (
    "<plugins><simpleAuthenticationPlugin><users>"
    '<authenticationUser username="anna" password="a-4711" groups="admins"/>'
    "</users></simpleAuthenticationPlugin></plugins>"
)
LISTENING: Final = re.compile(r"Listening for web requests at: (\S+)")
EXAMPLES: Final = "100"
SEED: Final = "1"
# A stream has no end, and a limit of some bytes for the whole broker makes the answers to others 503, as it should.
LEFT_OUT: Final = "events|stream|broker/limits"
# A random text is no selector, and a pattern no name of a destination, which no schema says.
# Jolokia answers 200 with the status in its answer. The servlets take much for granted, as Classic's do: a longer wait
# than 20 ms, a word that is no flag, a parameter without a value.
SETTINGS: Final = """
[[operations]]
include-path-regex = "messages|browse|copy|move|purge|retry|(queues|topics)/"
checks.positive_data_acceptance.enabled = false

[[operations]]
include-path-regex = "^/api/(message|queueBrowse)/"
checks.negative_data_rejection.enabled = false

[[operations]]
include-path = "/api/jolokia"
checks.negative_data_rejection.enabled = false
"""
# A path such as queues/A/purge is also the page of a queue of this name, so it allows GET, which its template does not.
UNCHECKED: Final = "allow_header_conformance"


class WithWebPort(Started):
    """A broker with an administrator and a web port."""

    def text(self) -> str:
        return super().text().replace("</broker>", f'{USERS}<web port="0"/></broker>')


def main(program: str, examples: str = EXAMPLES, seed: str = SEED, paths: str = "") -> int:
    """Return the status of the program."""
    with tempfile.TemporaryDirectory() as directory, WithWebPort(Path(directory)) as broker:
        broker.awaits("Listening for web requests at: ")
        url = next(found[1] for line in broker.errors if (found := LISTENING.search(line)))
        settings = Path(directory) / "schemathesis.toml"
        settings.write_text(SETTINGS, "utf-8")
        servlets = Path(directory) / "servlets.json"
        servlets.write_text(json.dumps(document()), "utf-8")
        options = [
            "--auth", USER, *(["--include-path-regex", paths] if paths else []),
            "--exclude-path-regex", LEFT_OUT, "--exclude-checks", UNCHECKED, "--phases", "coverage,fuzzing",
            "--max-examples", examples, "--seed", seed, "--request-timeout", str(TIMEOUT_S), "--no-color",
        ]  # fmt: skip
        begin = [str(Path(program).absolute()), "--config-file", str(settings), "run"]
        documents = [[str(servlets), "--url", url]]
        if not any(re.search(paths, path) for path in document()["paths"]) or not paths:
            documents.insert(0, [f"{url}/api/v1/openapi.json"])
        runs = [subprocess.run([*begin, *one, *options], check=False, cwd=directory) for one in documents]
        status = max(run.returncode for run in runs)
        assert broker.stop() == 0
        return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
