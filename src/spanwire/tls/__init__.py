"""TLS for the broker's connectors and for the client: key stores, contexts, Java's names of suites and versions."""
