"""Readers of Spring XML, properties, URIs and Java options; all produce one tree of elements."""
