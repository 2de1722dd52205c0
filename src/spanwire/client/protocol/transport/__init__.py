"""The ways of a client to its brokers: one link, failover, fan-out, and a broker in the same process."""
