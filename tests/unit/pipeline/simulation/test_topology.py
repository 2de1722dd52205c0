"""Generated networks, lists of connectors in files, and what cannot be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.simulation.command import cause
from spanwire.pipeline.simulation.graph import MAX_BROKERS, MAX_CONNECTORS, components, graph_of, is_forest
from spanwire.pipeline.simulation.reach import UNREACHED, nearest
from spanwire.pipeline.simulation.topology import Connectors, directed_links, generate
from spanwire.pipeline.simulation.topology_file import read_connectors


def pairs(connectors: Connectors) -> list[tuple[int, int]]:
    return [(int(near), int(far)) for near, far in zip(*connectors, strict=True)]


def test_small_networks_are_what_their_names_say() -> None:
    assert pairs(generate("hub", 4, None, 1)) == [(1, 0), (2, 0), (3, 0)]
    assert pairs(generate("ring", 3, None, 1)) == [(0, 1), (1, 2), (2, 0)]
    assert pairs(generate("ring", 2, None, 1)) == [(0, 1)]
    assert pairs(generate("tree", 6, None, 1)) == [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2)]
    assert pairs(generate("tree", 5, 4, 1)) == [(1, 0), (2, 0), (3, 0), (4, 0)]
    assert sorted(pairs(generate("grid", 6, None, 1))) == [(0, 1), (0, 3), (1, 2), (1, 4), (2, 5), (3, 4), (4, 5)]
    assert pairs(generate("mesh", 3, None, 1)) == [(0, 1), (0, 2), (1, 2)]


@pytest.mark.parametrize("kind", ["hub", "ring", "tree", "grid", "mesh", "scale-free"])
@pytest.mark.parametrize("brokers", [2, 3, 10, 50])
def test_all_brokers_of_a_network_are_joined(kind: str, brokers: int) -> None:
    near, far = generate(kind, brokers, None, 7)
    assert components(brokers, near, far) == 1
    assert len(set(pairs((near, far)))) == near.size and (near != far).all()


@pytest.mark.parametrize(("brokers", "degree"), [(5, 4), (10, 3), (50, 4), (1_000, 7)])
def test_all_brokers_of_a_regular_network_have_as_many_neighbours(brokers: int, degree: int) -> None:
    near, far = generate("regular", brokers, degree, 3)
    assert np.bincount(np.concatenate((near, far)), minlength=brokers).tolist() == [degree] * brokers
    assert len({frozenset(pair) for pair in pairs((near, far))}) == brokers * degree // 2


def test_in_a_scale_free_network_few_brokers_have_very_many_links() -> None:
    near, far = generate("scale-free", 5_000, 6, 1)
    degrees = np.bincount(np.concatenate((near, far)))
    assert degrees.mean() == pytest.approx(6, abs=0.2)
    assert degrees.max() > 20 * np.median(degrees)
    assert degrees[:50].mean() > 5 * degrees[-2_500:].mean()


def test_a_seed_says_which_network_it_is() -> None:
    for kind in ("regular", "scale-free"):
        assert pairs(generate(kind, 100, 4, 1)) == pairs(generate(kind, 100, 4, 1))
        assert pairs(generate(kind, 100, 4, 1)) != pairs(generate(kind, 100, 4, 2))


@pytest.mark.parametrize(
    ("kind", "brokers", "degree", "message"),
    [
        ("hub", MAX_BROKERS + 1, None, "--brokers is 1,000,001; 2 to 1,000,000 can be simulated"),
        ("hub", 1, None, "--brokers is 1; 2 to 1,000,000 can be simulated"),
        ("ring", 5, 2, "--degree: a ring network has none to choose"),
        ("regular", 5, 3, "there is no network in which each of 5 brokers has 3 neighbours"),
        ("regular", 4, 4, "there is no network in which each of 4 brokers has 4 neighbours"),
        ("tree", 5, 6, "--degree is 6; 1 to the number of brokers is possible"),
        ("mesh", 4_000, None, "a full mesh of 4,000 brokers has 7,998,000 connectors; 5,000,000 are the most"),
        ("scale-free", 1_000_000, 12, "with 12 links each has 6,000,000 connectors; 5,000,000 are the most"),
    ],
)
def test_a_network_that_cannot_be_is_refused_in_one_line(
    kind: str, brokers: int, degree: int | None, message: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        generate(kind, brokers, degree, 1)
    assert message in str(refused.value) and "\n" not in str(refused.value)


def test_more_brokers_or_links_than_can_be_simulated_are_refused() -> None:
    one = np.zeros(1, np.int64)
    with pytest.raises(ConfigurationError, match="1,000,001 brokers are more than the 1,000,000"):
        graph_of(MAX_BROKERS + 1, one, one + 1)
    many = np.zeros(2 * MAX_CONNECTORS + 1, np.int8)
    with pytest.raises(ConfigurationError, match="10,000,001 links are more than the 10,000,000"):
        graph_of(2, many, many)


def test_a_forest_is_known_by_its_links() -> None:
    for kind, expected in (("hub", True), ("tree", True), ("ring", False), ("grid", False)):
        for duplex in (True, False):
            graph = graph_of(9, *directed_links(generate(kind, 9, None, 1), duplex))
            assert is_forest(graph) is expected, (kind, duplex)
    doubled = graph_of(3, np.array([0, 0, 1]), np.array([1, 1, 2]))
    assert not is_forest(doubled)
    both = graph_of(4, np.array([0, 2]), np.array([1, 3]))
    assert is_forest(both)


def test_messages_of_one_way_connectors_go_one_way() -> None:
    chain = (np.array([0, 1]), np.array([1, 2]))
    assert nearest(graph_of(3, *directed_links(chain, False)), np.array([2])).tolist() == [2, 1, 0]
    assert nearest(graph_of(3, *directed_links(chain, False)), np.array([0])).tolist() == [0, UNREACHED, UNREACHED]
    assert nearest(graph_of(3, *directed_links(chain, True)), np.array([0])).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "text",
    ["near,far\nA,B\nB,7\n", "A,B\nB,7\n", '"A","B"\n"B","7"', "far,near,cost\nB,A,1\n7,B,2\n", "A,B,x\r\nB,7,y\r\n"],
)
def test_a_list_of_connectors_may_have_a_line_of_names(tmp_path: Path, text: str) -> None:
    file = tmp_path / "links.csv"
    file.write_text(text)
    connectors, names = read_connectors(file)
    assert [(names[near], names[far]) for near, far in pairs(connectors)] == [("A", "B"), ("B", "7")]


def test_a_parquet_file_or_a_directory_of_such_is_a_list_too(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pa.table({"far": [2, 3], "near": [1, 2]}), tmp_path / "links.parquet")
    for path in (tmp_path / "links.parquet", tmp_path):
        connectors, names = read_connectors(path)
        assert names == ["1", "2", "3"] and pairs(connectors) == [(0, 1), (1, 2)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "No such file"),
        ("", "links.csv"),
        ("near,far\n", "there is no connector in it"),
        ("A\nB\n", "links.csv"),
        ("A,B\nB\n", "links.csv"),
        ("A,B\nC,\n", "connector 2 has no far"),
        ("A,B\nC,C\n", "connector 2 leads from C to itself"),
    ],
)
def test_a_bad_list_of_connectors_is_one_line(tmp_path: Path, text: str | None, message: str) -> None:
    file = tmp_path / "links.csv"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigurationError) as refused:
        read_connectors(file)
    assert message in str(refused.value) and "\n" not in str(refused.value)


def test_a_parquet_file_without_the_columns_is_refused(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pa.table({"a": [1]}), tmp_path / "x.parquet")
    (tmp_path / "y.parquet").write_text("no parquet")
    for name in ("x.parquet", "y.parquet"):
        with pytest.raises(ConfigurationError, match=name):
            read_connectors(tmp_path / name)


def test_of_what_spark_says_the_cause_is_told() -> None:
    java = "An error occurred while calling o1.x.\n: org.apache.spark.SparkException: Could not parse it\n\tat a.b\n"
    assert cause(java) == "org.apache.spark.SparkException: Could not parse it"
    assert cause("[NO_SUCH] There is none.\nMore") == "[NO_SUCH] There is none."
    assert cause("") == ""
