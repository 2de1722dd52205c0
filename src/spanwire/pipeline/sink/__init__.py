"""Sinks that write each batch of Spark into a broker once and only once."""
