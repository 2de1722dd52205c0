"""The STOMP codec: converts octets to frames and frames to octets. Pure.

- An *escape* stands for a character that a header may not contain.
- A *header block* is a command with its decoded headers, shared between equal frames.
"""
