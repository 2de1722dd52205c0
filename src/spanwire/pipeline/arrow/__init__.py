"""Rows of messages as Arrow tables and Spark frames: the schema, record batches, files of them."""
