"""``spanwire pipeline``: messages through Spark."""
