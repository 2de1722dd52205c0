"""Readers of route files (YAML, Camel XML with its beans, the JMS bridge) for the model of `spanwire.routes.model`."""
