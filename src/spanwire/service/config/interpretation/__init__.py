"""Interprets elements as the model of a configuration; every unsupported attribute is reported."""
