"""Broker URLs and what their options mean. Pure."""
