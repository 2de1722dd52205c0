"""``persistenceAdapter``: the stores of ActiveMQ as places and ways of Spanwire's own journal."""

from __future__ import annotations

from pathlib import Path

import pytest

from spanwire.model.errors import ConfigurationError
from spanwire.service.config.model import BrokerConfiguration, PersistenceConfiguration
from spanwire.service.config.reading import read_configuration

MIB = 1024 * 1024
DEFAULT = PersistenceConfiguration()


def broker(adapter: str, skip: bool = False, attributes: str = "") -> BrokerConfiguration:
    xml = f"<broker {attributes}><persistenceAdapter>{adapter}</persistenceAdapter></broker>"
    return read_configuration(xml.encode(), Path("/etc/activemq.xml"), {}, {}, skip_unsupported=skip)


def persistence(adapter: str) -> PersistenceConfiguration:
    return broker(adapter).persistence


def refusal(adapter: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        broker(adapter)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("adapter", "expected"),
    [
        ("", DEFAULT),
        ("<kahaDB/>", DEFAULT),
        (
            '<kahaDB directory="/k" journalMaxFileLength="16mb"/>',
            PersistenceConfiguration(directory=Path("/k"), segment_bytes=16 * MIB),
        ),
        ('<kahaDB enableJournalDiskSyncs="true"/>', DEFAULT),
        ('<kahaDB enableJournalDiskSyncs="false"/>', PersistenceConfiguration(sync=False)),
        ('<kahaDB journalDiskSyncStrategy="always"/>', DEFAULT),
        ('<kahaDB journalDiskSyncStrategy="NEVER"/>', PersistenceConfiguration(sync=False)),
        (
            '<kahaDB journalDiskSyncStrategy="Periodic"/>',
            PersistenceConfiguration(sync=False, sync_interval_ms=1000),
        ),
        (
            '<kahaDB journalDiskSyncStrategy="periodic" journalDiskSyncInterval="250"/>',
            PersistenceConfiguration(sync=False, sync_interval_ms=250),
        ),
        ('<kahaDB journalDiskSyncInterval="250"/>', DEFAULT),
        ('<kahaDB journalDiskSyncStrategy="always" enableJournalDiskSyncs="false"/>', DEFAULT),
        (
            '<levelDB directory="/l" logSize="104857600"/>',
            PersistenceConfiguration(directory=Path("/l"), segment_bytes=100 * MIB),
        ),
        ('<levelDB sync="false"/>', PersistenceConfiguration(sync=False)),
        (
            '<kahaDB failoverProducersAuditDepth="100" maxFailoverProducersToTrack="5"/>',
            PersistenceConfiguration(audit_depth=100, audited_producers=5),
        ),
        (
            '<mKahaDB directory="/m" journalMaxFileLength="8mb"><filteredPersistenceAdapters>'
            '<filteredKahaDB perDestination="true"><persistenceAdapter><kahaDB/></persistenceAdapter></filteredKahaDB>'
            "</filteredPersistenceAdapters></mKahaDB>",
            PersistenceConfiguration(directory=Path("/m"), segment_bytes=8 * MIB),
        ),
        ("<memoryPersistenceAdapter/>", PersistenceConfiguration(persistent=False)),
        ('<memoryPersistenceAdapter createTransactionStore="true"/>', PersistenceConfiguration(persistent=False)),
    ],
)
def test_an_adapter_says_where_and_how_the_journal_is_kept(adapter: str, expected: PersistenceConfiguration) -> None:
    assert persistence(adapter) == expected


def test_a_broker_that_is_not_persistent_keeps_nothing_whatever_the_adapter_says() -> None:
    found = broker('<kahaDB directory="/k"/>', attributes='persistent="false"').persistence
    assert found == PersistenceConfiguration(persistent=False, directory=Path("/k"))


@pytest.mark.parametrize(
    ("adapter", "word", "reason"),
    [
        ('<kahaDB indexCacheSize="9"/>', "indexCacheSize", "messages are kept in Spanwire's own journal"),
        ('<levelDB readThreads="9"/>', "readThreads", "messages are kept in Spanwire's own journal"),
        ("<mKahaDB><filteredPersistenceAdapters/></mKahaDB>", "filteredPersistenceAdapters", "share one journal"),
        ('<kahaDB rewriteOnRedelivery="true"/>', "rewriteOnRedelivery", "keeps redelivery counts"),
    ],
)
def test_what_has_no_effect_is_said_once(adapter: str, word: str, reason: str) -> None:
    (warning,) = broker(adapter).warnings
    assert word in warning
    assert reason in warning


@pytest.mark.parametrize(
    ("adapter", "told"),
    [
        ('<kahaDB journalDiskSyncStrategy="sometimes"/>', "must be always, periodic or never"),
        ('<kahaDB journalDiskSyncInterval="0"/>', "journalDiskSyncInterval"),
        ('<kahaDB journalDiskSyncInterval="60001"/>', "journalDiskSyncInterval"),
        ('<kahaDB journalMaxFileLength="1kb"/>', "journalMaxFileLength of <kahaDB> must be from 1 mb"),
        ('<levelDB logSize="2gb"/>', "logSize of <levelDB> must be from 1 mb to just under 2 gb"),
        ('<mKahaDB journalMaxFileLength="1"/>', "journalMaxFileLength of <mKahaDB> must be"),
        ('<kahaDB directory=""/>', "directory of <kahaDB> is no directory name"),
        ('<levelDB replicas="3"/>', "replicas"),
        ("<kahaDB/><levelDB/>", "more than one adapter; keep one"),
        ("<replicatedLevelDB/>", "stores that several brokers share"),
        ("<jdbcPersistenceAdapter/>", "stores in a database"),
        ("<journalPersistenceAdapter/>", "stores in a database"),
        ("<amqPersistenceAdapter/>", "write kahaDB with the directory of the new journal"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(adapter: str, told: str) -> None:
    assert told in refusal(adapter)


def test_a_refused_store_can_be_left_out_and_the_journal_is_used() -> None:
    found = broker("<jdbcPersistenceAdapter/>", skip=True)
    assert found.persistence == DEFAULT
    assert "<jdbcPersistenceAdapter>" in found.skipped[0]


def test_toml_spells_the_stores_in_its_own_way() -> None:
    text = b"[persistence_adapter.level_db]\ndirectory = '/l'\nlog_size = '8mb'\nsync = false\n"
    found = read_configuration(text, Path("/etc/broker.toml"), {}, {}).persistence
    assert found == PersistenceConfiguration(directory=Path("/l"), segment_bytes=8 * MIB, sync=False)
    text = b"[persistence_adapter.m_kaha_db]\ndirectory = '/m'\n"
    assert read_configuration(text, Path("/etc/broker.toml"), {}, {}).persistence.directory == Path("/m")
