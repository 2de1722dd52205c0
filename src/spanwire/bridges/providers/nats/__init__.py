"""The providers for NATS, on the library nats-py (extra ``nats``): streams of JetStream, and core NATS."""
