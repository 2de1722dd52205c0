"""Batch reader that hands Spark's filters to the broker.

Spark refuses such a reader while ``spark.sql.python.filterPushdown.enabled`` is off; an option of the data source
selects the reader.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql.datasource import Filter

from spanwire.pipeline.datasource.reader import SpanwireReader
from spanwire.pipeline.selectors.filter_pushdown import selector_with


class FilteringReader(SpanwireReader):
    """Browses a queue with a selector made of the filters."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Narrow the selector and return all filters, because Spark must apply them exactly."""
        selector = selector_with(
            next((v for k, v in self._option_map.items() if k.lower() == "selector"), None), filters
        )
        self._option_map = {name: value for name, value in self._option_map.items() if name.lower() != "selector"}
        if selector is not None:
            self._option_map["selector"] = selector
        return filters
