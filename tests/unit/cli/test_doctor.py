"""``spanwire doctor`` finds what is planted on this machine, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from spanwire.cli.main import main
from spanwire.service.doctor import gathering
from tests.support.certificates import Certified, named, signed

FILE = """<broker brokerName="b" dataDirectory="{directory}/data">
<sslContext><sslContext keyStore="{directory}/broker.pem"/></sslContext>
<transportConnectors>
  <transportConnector name="one" uri="ssl://127.0.0.1:{port}?maximumConnections=10"/>
</transportConnectors></broker>"""


def certified(directory: Path, mode: int) -> Path:
    """A key with a certificate of three months in a file of this mode."""
    key, name = ec.generate_private_key(ec.SECP256R1()), named(CN="localhost")
    path = Certified(key, signed(name, key, name, key, hosts=("localhost",), days=90)).write_pem(
        directory / "broker.pem"
    )
    path.chmod(mode)
    return path


def findings(directory: Path, capsys: pytest.CaptureFixture[str], port: int) -> tuple[int, dict[str, dict[str, str]]]:
    path = directory / "activemq.xml"
    path.write_text(FILE.format(directory=directory, port=port))
    status = main(["doctor", str(path), "--json"])
    answer = json.loads(capsys.readouterr().out)
    return status, {
        one["subject"]: one for one in answer["findings"] if one["level"] != "OK" or one["subject"] == "sync"
    }


def test_a_port_in_use_a_key_for_all_and_a_directory_for_all_are_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = certified(tmp_path, 0o644)
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(0o777)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        status, found = findings(tmp_path, capsys, port)
    assert status == 2
    assert found["port"]["where"] == f"connector one, ssl://127.0.0.1:{port}"
    assert "is in use" in found["port"]["text"]
    assert found["certificate"]["advice"] == f"chmod 600 {key}"
    assert found["data directory"]["advice"] == f"chmod o-w {data}"
    assert f"of {gathering.SYNCS} syncs" in found["sync"]["text"]
    assert os.listdir(data) == []


def test_a_sound_place_has_none_of_these_faults(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    certified(tmp_path, 0o600)
    _, found = findings(tmp_path, capsys, 0)
    assert not {"port", "certificate", "data directory", "configuration", "extras"} & set(found)
    assert not (tmp_path / "data").exists()


def test_a_refused_file_is_critical_and_comes_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "activemq.xml"
    path.write_text('<broker persistant="true"/>')
    assert main(["doctor", str(path)]) == 2
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("CRITICAL configuration: ") and "persistant" in lines[0]
    assert lines[-1].startswith("CRITICAL: 1 critical, ")


def test_a_slow_disk_ends_the_syncs_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "SYNC_BUDGET_S", 0.0)
    assert len(list(gathering._sync_times(tmp_path))) == 1
    assert os.listdir(tmp_path) == []


def test_an_extra_that_the_file_needs_is_missed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "activemq.xml"
    path.write_text(f'<broker dataDirectory="{tmp_path}/data"><web port="0"/></broker>')
    monkeypatch.setattr(gathering, "WEB_NEEDED", ("no_such_package",))
    assert main(["doctor", str(path)]) == 2
    assert "CRITICAL extras: <web> needs the extra web; run: " in capsys.readouterr().out
