"""STOMP 1.0, 1.1 and 1.2: frames, codec, and the broker's side of a connection. Pure.

- A *frame* is one command of a client or the broker, with headers and a body.
- A *heart-beat* is an octet at an agreed interval. A *receipt* is the answer to a frame that asks for an answer.
"""
