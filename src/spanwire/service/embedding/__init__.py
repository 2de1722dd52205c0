"""Brokers inside another program, started by the program or by ``vm:`` and ``peer:`` URLs."""
