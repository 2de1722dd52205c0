"""Spark registers the `DefaultSource` of modules with such a name, so ``format("spanwire")`` needs no call."""

from spanwire.pipeline.datasource.source import SpanwireDataSource as DefaultSource

__all__ = ["DefaultSource"]
