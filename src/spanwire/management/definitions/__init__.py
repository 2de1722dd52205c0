"""Definitions of brokers as documents: TOML, XML, differences, and the steps to an equal broker."""
