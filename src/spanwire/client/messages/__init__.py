"""Received messages, decoded on demand, and the encoding of messages to send. Pure.

- A *template* has the common octets of consecutive messages or acknowledgements.
- A *typed value* is a value of a property or body with its JMS type.
"""
