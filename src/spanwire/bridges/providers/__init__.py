"""Providers: one package for each way to reach brokers."""
