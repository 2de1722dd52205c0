"""Readers of route files, for the model of `spanwire.routes.model`.

The formats are YAML, Camel XML with its beans, and the JMS bridge.
"""
