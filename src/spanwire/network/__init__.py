"""Networks of brokers: a bridge forwards messages to consumers of a remote broker."""
