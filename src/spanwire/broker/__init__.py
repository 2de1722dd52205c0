"""The broker core: queues, topics, subscriptions, transactions, flow control. No I/O, no clock. Pure."""
