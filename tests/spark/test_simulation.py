"""A simulated network in tasks of Spark: the parts add up to the whole, and the command tells of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

from spanwire.cli.network.network_simulate import asked
from spanwire.model.errors import ConfigurationError
from spanwire.model.routing import MAX_PATH
from spanwire.pipeline.simulation.command import Choice, Prepared, print_outcome
from spanwire.pipeline.simulation.demand_follower import DemandFollower
from spanwire.pipeline.simulation.graph import graph_of
from spanwire.pipeline.simulation.reach import nearest
from spanwire.pipeline.simulation.report import Naming, summary, summary_lines
from spanwire.pipeline.simulation.rules import Rules
from spanwire.pipeline.simulation.simulation import Limits, simulate
from spanwire.pipeline.simulation.spread import Network
from spanwire.pipeline.simulation.topology import directed_links, generate
from tests.unit.service.config.test_network_lint import broker, to


def network(kind: str, brokers: int, rules: Rules, consumers_at: int) -> Network:
    goals = np.random.default_rng(5).permutation(brokers)[:consumers_at]
    return Network(graph_of(brokers, *directed_links(generate(kind, brokers, None, 1), True)), rules, goals, 1)


def told(spark: SparkSession, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What the command prints, on the session that there is already."""
    prepared, choice = asked(words)
    assert isinstance(prepared, Prepared) and isinstance(choice, Choice)
    print_outcome(spark, prepared, choice)
    return capsys.readouterr().out


def test_what_tasks_follow_is_what_one_follows_alone(spark: SparkSession) -> None:
    chosen = network("regular", 500, Rules(consumer_ttl=3, message_ttl=3), 130)
    found = simulate(spark, chosen)
    alone = DemandFollower(chosen.graph, chosen.rules, chosen.goals).run()
    for name in ("subscriptions", "frames", "nearest", "preferred", "by_hops"):
        assert np.array_equal(getattr(found.demand, name), getattr(alone, name)), name
    assert found.demand.exact and not found.forest
    by_each: list[int] = [0] * 4
    for goal in chosen.goals:
        for hops in nearest(chosen.graph, np.array([goal])):
            if 0 < hops <= 3:
                by_each[hops] += 1
    assert found.pairs.goals == 130 and found.pairs.heard.tolist() == by_each


def test_messages_that_go_all_ways_are_followed_in_parts(spark: SparkSession) -> None:
    rules = Rules(consumer_ttl=2, message_ttl=2, decreases=False)
    found = simulate(spark, network("grid", 600, rules, 20)).sharing
    assert found is not None and found.starts == 600
    assert found.arrived.sum() + found.stuck.sum() + found.not_heard + found.no_way == pytest.approx(600)
    assert found.stuck.sum() > 1
    nearest_first = simulate(spark, network("grid", 600, Rules(consumer_ttl=2, message_ttl=2), 20)).sharing
    assert nearest_first is not None and nearest_first.stuck.sum() == 0
    assert nearest_first.arrived.sum() > found.arrived.sum()


def test_messages_of_some_of_very_many_brokers_are_said_to_be_sampled(spark: SparkSession) -> None:
    rules = Rules(consumer_ttl=2, message_ttl=2, decreases=False)
    found = simulate(spark, network("ring", 90, rules, 90), limits=Limits(starts=30))
    assert found.sharing is not None and found.sharing.starts == 30
    naming = Naming("ring", "queue://Q", 90)
    text = "\n".join(summary_lines(found, summary(found, naming, 1.0, 1), naming))
    assert "one from each of 30 brokers (sampled): " in text


def test_messages_with_too_many_ways_are_refused(spark: SparkSession) -> None:
    rules = Rules(consumer_ttl=2, message_ttl=MAX_PATH, decreases=False)
    with pytest.raises(ConfigurationError, match="a message has more than 100 ways here; set a lower messageTTL"):
        simulate(spark, network("mesh", 9, rules, 1), limits=Limits(ways=100))


def test_what_is_too_much_to_follow_is_said_to_be_at_most(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "--topology mesh --brokers 40 --network-ttl 9 --subscribers ALL"
    text = told(spark, capsys, *words.split())
    assert "demand      at most " in text and "advisories  at most " in text
    assert "heard of    each broker with consumers at 39 others on average" in text
    assert "by hops: 1: 39\n" in text


def test_distances_to_some_of_very_many_are_said_to_be_sampled(
    spark: SparkSession,
) -> None:
    chosen = network("regular", 200, Rules(consumer_ttl=2, message_ttl=2), 200)
    found = simulate(spark, chosen, limits=Limits(searched=1))
    assert found.pairs.goals == 64 and found.pairs.heard[1] == 64 * 4
    naming = Naming("regular", "queue://Q", 400)
    found_out = summary(found, naming, 1.0, 1)
    assert "each broker with consumers (sampled: 64 of them) at 15" in "\n".join(
        summary_lines(found, found_out, naming)
    )
    heard = found_out["heard_of"]
    assert isinstance(heard, dict) and heard["sampled"] is True


def test_a_topic_reaches_all_that_ask_for_it(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "--topology hub --brokers 300 --topic NEWS --network-ttl 2 --subscribers ALL --json --out"
    found = json.loads(told(spark, capsys, *words.split(), str(tmp_path / "out")))
    assert found["demand"] == {
        "exact": True,
        "subscriptions": 2 * 299,
        "by_hops": {"1": 2 * 299},
        "brokers_with_some": 300,
        "most_at_a_broker": 299,
        "most_of_a_link": 1,
    }
    assert found["heard_of"]["copies_by_hops"] == {"1": 2 * 299, "2": 299 * 298}
    assert found["messages"] is None
    links = pyarrow.parquet.read_table(tmp_path / "out/links.parquet").to_pylist()
    assert sum(row["advisories"] for row in links) == found["advisories"]["frames"]
    brokers = pyarrow.parquet.read_table(tmp_path / "out/brokers.parquet").to_pylist()
    assert len(brokers) == 300 and brokers[0]["subscriptions"] == 299
    assert json.loads((tmp_path / "out/summary.json").read_text())["network"] == "hub"


def test_files_of_brokers_and_lists_of_connectors_are_simulated(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [
        broker(tmp_path, "A", to("B", 'networkTTL="2"')),
        broker(tmp_path, "B", to("C", 'networkTTL="1"')),
        broker(tmp_path, "C"),
    ]
    (tmp_path / "links.csv").write_text("brokerA,brokerB\nbrokerB,brokerC\n")
    for words in (files, ["--edges", str(tmp_path / "links.csv"), "--one-way", "--network-ttl", "2"]):
        found = json.loads(told(spark, capsys, "--subscribers", "ALL", "--queue", "Q", "--json", *words))
        assert (found["brokers"], found["connectors"], found["links"]) == (3, 2, 2)
        assert found["demand"]["by_hops"] == {"1": 2, "2": 1}
        assert found["messages"]["arrived"] == 3
        assert found["advisories"]["hot_links"] == [
            {"from": "brokerB", "to": "brokerA", "frames": 2},
            {"from": "brokerC", "to": "brokerB", "frames": 1},
        ]
