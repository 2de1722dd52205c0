"""Builds and runs a broker: configuration, stores, connectors, control socket."""
