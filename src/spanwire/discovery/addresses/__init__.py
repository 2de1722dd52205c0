"""Addresses of brokers and lists of addresses in URIs, and pauses between attempts to connect. Pure."""
