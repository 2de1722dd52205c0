"""The batch reader that hands Spark's filters to the broker. Spark refuses such a reader while its setting
``spark.sql.python.filterPushdown.enabled`` is off, so there is an option that asks for it.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql.datasource import Filter

from spanwire.pipeline.datasource.reader import SpanwireReader
from spanwire.pipeline.selectors.filter_pushdown import selector_with


class FilteringReader(SpanwireReader):
    """Looks at a queue through a selector made of the filters."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Narrow the selector; every filter stays with Spark as well, which is exact."""
        selector = selector_with(
            next((v for k, v in self._option_map.items() if k.lower() == "selector"), None), filters
        )
        self._option_map = {name: value for name, value in self._option_map.items() if name.lower() != "selector"}
        if selector is not None:
            self._option_map["selector"] = selector
        return filters
