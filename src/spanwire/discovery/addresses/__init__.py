"""Addresses of brokers and lists of them in URIs, and pauses between attempts to connect. Pure."""
