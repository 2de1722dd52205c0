"""Commands about bridges between brokers."""
