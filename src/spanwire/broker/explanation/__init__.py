"""Explains why a message does not move: for ``spanwire why``. Nothing here runs before somebody asks.

- A *location* is where the broker has a message: a queue, a consumer, a transaction, a cursor and others.
- A *verdict* is why one consumer does not get one message.
- An *explanation* is one sentence with its cause, evidence and advice; evidence names an object and a time.
- A *departure* is a message that left otherwise than by an acknowledgement (`spanwire.broker.dispatch.history`).
"""
