"""STOMP over WebSocket (RFC 6455): the layer between a socket, or TLS, and a STOMP connection.

- The *handshake* is the HTTP request with which a client changes to WebSocket.
- An *origin* is scheme, host and port of the page whose script connects; browsers send it, and no script can forge it.
- A *message* is what a client sends or receives at once, a *frame* a part of it. Compression is off.
"""
