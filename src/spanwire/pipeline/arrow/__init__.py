"""Rows of messages as Arrow data: the schema, record batches, segments on disk, and Spark's columns.

A *segment* is a file with the messages of one batch.
"""
