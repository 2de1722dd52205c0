"""Reads a list of connectors from CSV or Parquet, one row for each with its two brokers."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.simulation.graph import MAX_CONNECTORS
from spanwire.pipeline.simulation.topology import Connectors

COLUMNS: Final = ("near", "far")


def read_connectors(path: Path) -> tuple[Connectors, list[str]]:
    """Return the connectors, and the names of brokers by number, in the order of appearance.

    The columns are ``near`` and ``far``; a CSV file may omit the header.

    Raises:
        ConfigurationError: the file is unreadable or faulty.
    """
    table = _read(path)
    if table.num_rows > MAX_CONNECTORS:
        raise ConfigurationError(f"{path}: {table.num_rows:,} connectors; {MAX_CONNECTORS:,} are the most")
    if not table.num_rows:
        raise ConfigurationError(f"{path}: there is no connector in it")
    ends = [table.column(index).cast(pa.string()).combine_chunks() for index in (0, 1)]
    for name, column in zip(COLUMNS, ends, strict=True):
        empty = np.flatnonzero(pc.fill_null(pc.equal(column, ""), True).to_numpy(zero_copy_only=False))
        if empty.size:
            raise ConfigurationError(f"{path}: connector {empty[0] + 1} has no {name}")
    between = pa.array(np.arange(2 * table.num_rows).reshape(2, -1).T.reshape(-1))
    named = pa.concat_arrays(ends).take(between).dictionary_encode()
    both = named.indices.to_numpy(zero_copy_only=False).astype(np.int64).reshape(-1, 2)
    itself = np.flatnonzero(both[:, 0] == both[:, 1])
    if itself.size:
        name = named.dictionary[int(both[itself[0], 0])].as_py()
        raise ConfigurationError(f"{path}: connector {itself[0] + 1} leads from {name[:60]} to itself")
    return (both[:, 0], both[:, 1]), named.dictionary.to_pylist()


def _read(path: Path) -> pa.Table:
    try:
        if path.is_dir() or path.suffix == ".parquet":
            table = pyarrow.parquet.read_table(path, columns=list(COLUMNS))
        else:
            table = _read_csv(path)
    except (OSError, pa.ArrowException) as error:
        reason = (str(error).splitlines() or ["it cannot be read"])[0]
        raise ConfigurationError(f"{path}: {reason[:200]}") from None
    if table.num_columns < 2:
        raise ConfigurationError(f"{path}: it takes two columns, {' and '.join(COLUMNS)}")
    return table


def _read_csv(path: Path) -> pa.Table:
    with path.open("rb") as file:
        first = file.readline(1_000).decode("utf-8", "replace").strip()
    words = [word.strip().strip('"') for word in first.split(",")]
    options = pyarrow.csv.ReadOptions(autogenerate_column_names=not set(COLUMNS) <= set(words))
    convert = pyarrow.csv.ConvertOptions(
        include_columns=list(COLUMNS if not options.autogenerate_column_names else ("f0", "f1")),
        column_types={name: pa.string() for name in (*COLUMNS, "f0", "f1")},
    )
    return pyarrow.csv.read_csv(path, read_options=options, convert_options=convert)
