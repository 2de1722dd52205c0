"""Explains why a message does not move: for ``spanwire why``. The package runs on request only.

- A *location* is the position of a message in the broker: a queue, a consumer, a transaction, a cursor and others.
- A *verdict* is why one consumer does not get one message.
- An *explanation* is one sentence with cause, evidence and advice; evidence names an object and a time.
- A *departure* is the exit of a message without an acknowledgement (`spanwire.broker.dispatch.history.departures`).
"""
