"""Ruby's stomp and Perl's Net::Stomp, the scripting clients that Linux distributions bring along."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.peers import require

HERE = Path(__file__).parent
PATIENCE_S = 60
MESSAGES = 10_000
PROGRESS = 1_000


def _perl(broker: BrokerProcess) -> list[str]:
    result = subprocess.run(
        ["perl", str(HERE / "perl" / "conversation.pl"), str(broker.stomp_port)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=PATIENCE_S,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


@pytest.mark.parametrize("broker", [pytest.param("spanwire", marks=pytest.mark.smoke), "classic"])
def test_ruby_listener_and_publisher_pass_ten_thousand_messages_and_a_report(
    request: pytest.FixtureRequest, broker: str
) -> None:
    require("ruby-stomp")
    port = str(request.getfixturevalue(broker).stomp_port)
    listener = subprocess.Popen(["ruby", str(HERE / "ruby" / "listener.rb"), port], stdout=subprocess.PIPE, text=True)
    try:
        assert listener.stdout is not None
        assert listener.stdout.readline() == "Waiting for messages\n"
        publisher = subprocess.run(
            ["ruby", str(HERE / "ruby" / "publisher.rb"), port, str(MESSAGES)],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert publisher.returncode == 0, publisher.stderr
        heard, _ = listener.communicate(timeout=PATIENCE_S)
    finally:
        listener.kill()
        listener.wait()
    steps = range(PROGRESS, MESSAGES + 1, PROGRESS)
    sent = publisher.stdout.splitlines()
    assert sent[:-2] == [f"Sent {count} messages" for count in steps]
    assert re.fullmatch(rf"Received {MESSAGES} in \d+\.\d+(e-\d+)? seconds", sent[-2])
    assert sent[-1] == "Done"
    assert heard.splitlines() == [*(f"Received {count} messages." for count in steps), "Finished"]
    assert listener.returncode == 0


@pytest.mark.smoke
def test_net_stomp_sees_what_it_sees_on_classic(spanwire: BrokerProcess, classic: BrokerProcess) -> None:
    require("net-stomp")
    ours = _perl(spanwire)
    assert len(ours) == 13
    assert ours == _perl(classic)
