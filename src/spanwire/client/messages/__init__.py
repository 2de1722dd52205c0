"""Received messages, decoded on demand, and the encoding of messages to send. Pure.

- A *template* has the octets that consecutive messages or acknowledgements share.
- A *typed value* is a value of a property or body with its JMS type.
"""
