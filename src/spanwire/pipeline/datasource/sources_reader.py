"""Stream reader of several sources: each broker of a list or discovery group, with each destination.

Each source keeps batches like a stream of one source: in a directory below the stagingDirectory, or under a cursor at
the broker of the source. The offset has a number for each source. Spark commits a batch before `latestOffset` is called
with the end of the batch.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from spanwire.model.errors import ConfigurationError, JmsError
from spanwire.pipeline.broker_list import is_group, place_of
from spanwire.pipeline.datasource.cursor_reader import CursorRange, read_range
from spanwire.pipeline.datasource.partitions import MIN_PARTITION_ROWS, StagedRows, staged_partitions
from spanwire.pipeline.link.broker_finder import BrokerFinder, find_in_group
from spanwire.pipeline.link.control_link import ControlLink
from spanwire.pipeline.link.queue_watch import QueueWatch
from spanwire.pipeline.options import read_options, staging_directory
from spanwire.pipeline.source.ended_link import EndedLink
from spanwire.pipeline.source.named_sources import (
    NamedSource,
    name_of_staging,
    named_source,
    source_of_name,
    sources_of,
    staging_of,
)
from spanwire.pipeline.source.offsets import changed, numbers_of, sources_offset
from spanwire.pipeline.source.pattern_link import PatternLink
from spanwire.pipeline.source.retry_window import PAUSE_S, RetryWindow
from spanwire.pipeline.source.source_group import MAX_SOURCES, SourceGroup
from spanwire.pipeline.source.source_link import CursorLink, LeftLink, SourceLink, StagedLink
from spanwire.pipeline.spark.gc_tuning import LOADED_MODULES
from spanwire.pipeline.storage.staged_segments import names_below, staged_rows

LAG: Final = "lag"
AWAY: Final = "away"


class SourcesStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads several sources in batches of the messages at hand; a copy in a task reads one partition."""

    def __init__(self, option_map: dict[str, str]) -> None:
        self._option_map = option_map
        self._options = read_options(option_map)
        self._run = uuid.uuid4().hex
        self._group: SourceGroup | None = None
        self._sources: dict[str, NamedSource] = {}
        self._patterns: dict[str, PatternLink] = {}
        self._last: dict[str, int] = {}
        groups = [url for url in self._options.brokers if is_group(url)]
        login = self._options.login
        self._finder = BrokerFinder(groups, time.monotonic, lambda group: find_in_group(login, group))

    def __getstate__(self) -> dict[str, str]:
        """Return only the options, because Spark pickles readers and a connection cannot be pickled."""
        return self._option_map

    def __setstate__(self, option_map: dict[str, str]) -> None:
        self.__class__.__init__(self, option_map)

    def initialOffset(self) -> dict[str, object]:
        """Return the first numbers of the sources that answer soon; messages still kept are the first batch."""
        group = self._opened()
        self._last = group.begin()
        if self._add_matched():
            self._last = group.begin()
        return sources_offset(self._last)

    def latestOffset(self, start: dict[str, object], limit: ReadLimit) -> dict[str, object]:
        """Return the end of the batch after ``start``, or ``start`` if no source has a message."""
        numbers = numbers_of(start)
        rows = self._options.max_rows
        group = self._opened()
        rows = min(rows, limit.max_rows) if isinstance(limit, ReadMaxRows) else rows
        self._add_found(self._finder.found())
        self._add_matched()
        self._add_ended(numbers)
        self._last = group.next_end(numbers, rows)
        while self._last == numbers and self._add_matched():
            self._last = group.next_end(numbers, rows)
        return sources_offset(self._last)

    def prepareForTriggerAvailableNow(self) -> None:
        """Limit the query to messages that are there now."""
        self._opened().stop_at_current_end()

    def reportLatestOffset(self) -> dict[str, object]:
        """Return the last numbers, the lag of each source and the absent brokers, for the progress report."""
        group = self._group
        if group is None:
            return sources_offset(self._last)
        return {**sources_offset(self._last), LAG: dict(sorted(group.lags().items())), AWAY: group.away()}

    def partitions(self, start: dict[str, object], end: dict[str, object]) -> Sequence[InputPartition]:
        """Return at least one partition for each source with messages in the batch."""
        partitions: list[InputPartition] = []
        for name, (first, last) in changed(numbers_of(start), numbers_of(end)).items():
            if self._options.cursor is None:
                directory = staging_of(staging_directory(self._options), name)
                partitions += staged_partitions(directory, [last], self._options.partitions)
            else:
                partitions += self._cursor_ranges(name, first, last)
        return partitions

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of one partition."""
        if isinstance(partition, CursorRange):
            return read_range(self._options, partition)
        assert isinstance(partition, StagedRows)
        LOADED_MODULES.freeze()
        return staged_rows(partition.directory, partition.segment, partition.first, partition.count)

    def stop(self) -> None:
        """Close all sources; what they keep stays."""
        group, self._group = self._group, None
        if group is not None:
            group.close()

    def create_link(self, source: NamedSource) -> SourceLink:
        """Return the link of a source."""
        if source.options.cursor is None:
            return StagedLink(source.options)
        if source.is_pattern:
            return PatternLink(QueueWatch(source.options.login, source.options.destination))
        return CursorLink(source.options, self._run, ControlLink(source.options.login))

    def _opened(self) -> SourceGroup:
        if self._group is None:
            self._group = SourceGroup(time.monotonic)
            self._sources, self._patterns = {}, {}
            for url in self._options.brokers:
                if not is_group(url) and not self._add_broker(url):
                    raise ConfigurationError(
                        f"spanwire: {len(self._options.brokers)} brokers with {self._options.destination} are more "
                        f"than {MAX_SOURCES} sources; use several queries"
                    )
            self._add_found(self._finder.first())
            if self._options.cursor is None:
                self._add_left(staging_directory(self._options))
        return self._group

    def _add_found(self, urls: Sequence[str]) -> None:
        for url in urls:
            if not self._add_broker(url):
                return

    def _add_broker(self, url: str) -> bool:
        """Add the sources of a broker that the query does not read yet; return False if there are too many."""
        group = self._opened()
        for source in sources_of(self._options, url):
            if source.name in self._sources:
                continue
            left = group.link(source.name)
            if left is not None:
                if not left.is_drained:
                    continue  # its staged messages come first
                left.close()
            link = self.create_link(source)
            if not group.add(source.name, link):
                return False
            self._sources[source.name] = source
            if isinstance(link, PatternLink):
                self._patterns[source.name] = link
        return True

    def _add_matched(self) -> bool:
        """Add the queues that patterns have found, and return True if there are any."""
        group = self._opened()
        has_added = False
        for name, link in self._patterns.items():
            url = self._sources[name].options.login.url
            for queue in link.take_found():
                source = named_source(self._options, url, queue)
                if source.name not in self._sources and group.add(source.name, self.create_link(source)):
                    self._sources[source.name] = source
                    has_added = True
        return has_added

    def _look_for_queues(self) -> list[JmsError]:
        """Add the queues that patterns find now. Returns the errors of brokers that are away; they stop no other."""
        failures: list[JmsError] = []
        for pattern in self._patterns.values():
            try:
                pattern.begin()
            except JmsError as error:
                pattern.disconnect()
                failures.append(error)
        self._add_matched()
        return failures

    def _add_left(self, directory: str) -> None:
        """Add the staged messages of sources that the query reads no more.

        Raises:
            ConfigurationError: the directory has the messages of a query without the option brokers.
        """
        group = self._opened()
        names, has_files = names_below(directory)
        if has_files:
            raise ConfigurationError(
                f"spanwire: the stagingDirectory {directory} belongs to a query without the option brokers; choose "
                "another one"
            )
        for name in filter(None, map(name_of_staging, names)):
            if name not in self._sources:
                group.add(name, LeftLink(staging_of(directory, name)))

    def _add_ended(self, numbers: Mapping[str, int]) -> None:
        """Add the cursors of removed sources, unless a pattern or group may still find these sources."""
        options, group = self._options, self._opened()
        if options.cursor is None or any(is_group(url) for url in options.brokers):
            return
        for name in numbers:
            source = source_of_name(options, name)
            if group.link(name) is not None or source is None or self._is_matched(source):
                continue
            if source.is_pattern:
                continue  # a pattern has no cursor
            group.add(name, EndedLink(source.options, self._run, ControlLink(source.options.login)))

    def _is_matched(self, source: NamedSource) -> bool:
        """Return True if a pattern at the broker of a source matches its queue."""
        place = place_of(source.options.login.url)
        for name in self._patterns:
            pattern = self._sources[name].options
            if place_of(pattern.login.url) == place and pattern.destination.matches(source.options.destination):
                return True
        return False

    def _cursor_ranges(self, name: str, first: int, last: int) -> list[InputPartition]:
        """Return the ranges of a source; after a restart wait for its broker.

        Raises:
            JmsError: the broker is away for too long.
            ConfigurationError: the query does not read this source, or the range is not reserved.
        """
        window = RetryWindow(time.monotonic)
        window.on_success()  # an earlier run has reached the broker
        while True:
            link = self._opened().link(name)
            try:
                if not isinstance(link, CursorLink):
                    failures = self._look_for_queues()
                    link = self._opened().link(name)
                    if failures and not isinstance(link, CursorLink):
                        raise failures[0]
                if not isinstance(link, CursorLink):
                    raise JmsError(
                        f"spanwire: a batch that was begun has messages of {name}, which the option brokers does not "
                        "name or the discovery group does not announce"
                    )
                ranges = link.cursor.ranges(first, last, self._options.partitions, MIN_PARTITION_ROWS)
                source = self._sources[name].options
                assert source.cursor is not None
                return [
                    CursorRange(source.cursor, link.cursor.epoch, low, high, source.login.url) for low, high in ranges
                ]
            except JmsError as error:
                if link is not None:
                    link.disconnect()
                window.on_failure(error)
                time.sleep(PAUSE_S)
                self._add_found(self._finder.found())
