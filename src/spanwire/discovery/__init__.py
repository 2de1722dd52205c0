"""Discovery of other brokers: addresses and URIs; `agents` has one module for each protocol."""
