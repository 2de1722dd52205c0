"""The name under which Spark finds the data source.

Spark registers the `DefaultSource` of modules whose names begin with ``pyspark_``, so ``format("spanwire")`` needs no
registration.
"""

from spanwire.pipeline.datasource.source import SpanwireDataSource as DefaultSource

__all__ = ["DefaultSource"]
