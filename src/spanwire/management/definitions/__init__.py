"""Definitions of brokers as documents: TOML and XML, their differences, and the steps that make a broker the same."""
