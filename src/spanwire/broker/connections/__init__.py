"""Connections of clients and what belongs to one: its state, its transactions. Pure."""
