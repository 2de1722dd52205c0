"""TLS for connectors and clients: key stores, contexts, and Java's names of suites and versions."""
