"""Transports: the broker's sockets, listeners, TLS and the connections inside one process.

- A *connector* listens and accepts connections; *admission* limits their number.
- A *pump* moves the bytes of one socket; a *turn* is one pass of the event loop.
- The *receive budget* limits the bytes of half-received frames; *rationing* chooses the reading socket above the limit.
"""
