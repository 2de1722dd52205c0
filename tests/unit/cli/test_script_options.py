"""Each option of the commands of ActiveMQ's script is taken, or refused with what stands for it. None is unknown.

The names are those of the library activemq-console 5.18.3.
"""

from __future__ import annotations

from typing import Final

import pytest

from spanwire.cli.arguments import FOREIGN, USAGE_ERROR
from spanwire.cli.main import main

JMX: Final = "--jmxurl --jmxuser --jmxpassword --jmxlocal --pid"
REFUSED: Final = {
    "browse": f"--factory --passwordFactory --xmsgsel {JMX}",
    "bstat": f"--objname --view {JMX}",
    "dstat": JMX,
    "list": JMX,
    "purge": f"--xmsgsel {JMX}",
    "query": JMX,
    "start": "--extdir",
    "stop": f"--connectorName --localProcessId --pollInterval --queueName {JMX}",
}
TAKEN: Final = {
    "browse": "--amqurl --msgsel --user --password --view -V",
    "consumer": "--ackMode --batchSize --brokerUrl --bytesAsText --clientId --destination --durable --messageCount "
    "--parallelThreads --password --sleep --user",
    "decrypt": "--algorithm --input --password",
    "encrypt": "--algorithm --input --password",
    "producer": "--brokerUrl --destination --message --messageCount --messageSize --msgGroupID --msgTTL "
    "--parallelThreads --password --payloadUrl --persistent --sleep --textMessageSize --transactionBatchSize --user",
    "purge": "--msgsel --reset",
    "query": "--objname --xobjname --view --invoke -Q -xQ",
    "start": "-D",
    "stop": "--all --timeout",
}
COMMANDS: Final = sorted({*REFUSED, *TAKEN, "create"})


@pytest.mark.parametrize(("command", "option"), [(name, one) for name, all_ in REFUSED.items() for one in all_.split()])
def test_an_option_without_a_counterpart_says_what_stands_for_it(
    command: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, option, "x"])
    assert ended.value.code == USAGE_ERROR
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert f"{option} of ActiveMQ's script is refused: {FOREIGN[option.lstrip('-').lower()]}" in line


@pytest.mark.parametrize(("command", "option"), [(name, one) for name, all_ in TAKEN.items() for one in all_.split()])
def test_an_option_with_a_counterpart_is_in_the_help(
    command: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    words = capsys.readouterr().out.replace(",", " ").replace("[", " ").replace("]", " ").split()
    assert any(word == option or (len(option) < 4 and word.startswith(option)) for word in words)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_and_version(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("-?", "-h", "--help"):
        with pytest.raises(SystemExit) as ended:
            main([command, option])
        assert ended.value.code == 0
        assert capsys.readouterr().out.startswith("usage: ")
    with pytest.raises(SystemExit) as ended:
        main([command, "--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("spanwire ")
