"""Exports of every released version are imported whole, and those of a newer one refused."""

from __future__ import annotations

import lzma
import tarfile
from pathlib import Path
from typing import Final

import pytest

from spanwire.cli.main import main
from spanwire.stores.driver.disk import FileDisk
from spanwire.stores.offline.contents import StoreContents
from spanwire.stores.offline.exporting import EXPORT_VERSION
from tests.support.tar_archives import unpack

VECTORS: Final = Path(__file__).resolve().parents[3] / "vectors"
VERSIONS: Final = range(1, EXPORT_VERSION + 1)
DIRECTORY: Final = VECTORS / "directories/format-3-tables-16.tar.xz"

Lines = dict[str, list[tuple[int, int, bytes]]]


def contents(journal: Path) -> tuple[Lines, dict[int, dict[bytes, bytes]]]:
    """Messages by destination, and metadata."""
    disk = FileDisk(journal)
    store = StoreContents(disk)
    lines = {
        line.destination.qualified_name: [
            (one.sequence, line.redeliveries.get(one.sequence, 0), one.raw) for one in store.read(line)
        ]
        for line in store.destinations
    }
    disk.close()
    return lines, {table: values for table, values in store.metadata.items() if values}


def export(number: int, folder: Path, first: bytes | None = None) -> Path:
    """The export of a version, perhaps with another version in its first line."""
    octets = lzma.decompress((VECTORS / f"exports/version-{number}.jsonl.xz").read_bytes())
    path = folder / "export"
    path.write_bytes(octets if first is None else octets.replace(b'"spanwire-store-export":1', first, 1))
    return path


def test_there_is_an_export_of_each_version() -> None:
    names = sorted(path.name for path in (VECTORS / "exports").glob("*.xz"))
    assert names == [f"version-{number}.jsonl.xz" for number in VERSIONS]


@pytest.mark.parametrize("number", VERSIONS)
def test_an_export_of_each_version_is_imported_whole(number: int, tmp_path: Path) -> None:
    with tarfile.open(DIRECTORY) as archive:
        unpack(archive, tmp_path / "data")
    assert main(["store", "import", str(tmp_path / "new"), str(export(number, tmp_path))]) == 0
    assert contents(tmp_path / "new/journal") == contents(tmp_path / "data/kahadb/journal")


def test_an_export_of_a_newer_version_is_refused_in_one_line_and_nothing_is_stored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = export(EXPORT_VERSION, tmp_path, b'"spanwire-store-export":%d' % (EXPORT_VERSION + 1))
    assert main(["store", "import", str(tmp_path / "new"), str(path)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert (
        f"the export has version {EXPORT_VERSION + 1}, this build reads {EXPORT_VERSION}: use the Spanwire that" in line
    )
    assert not list((tmp_path / "new").rglob("*.journal"))
