"""Received messages, decoded on demand, and the encoding of messages to send. Pure."""
