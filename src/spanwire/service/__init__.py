"""The composition root: reads a configuration, builds a broker with its stores and connectors, runs it."""
