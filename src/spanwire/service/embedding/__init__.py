"""Brokers inside another program: started by it, or by ``vm:`` and ``peer:`` URLs."""
