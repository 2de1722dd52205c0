"""STOMP over WebSocket (RFC 6455): the layer between a socket, or TLS, and a STOMP connection.

- The *handshake* is the HTTP request of a client for a change to WebSocket.
- An *origin* is scheme, host and port of a page with a connecting script. Browsers send the origin, and no
  script can forge an origin.
- A *message* is sent or received at once, a *frame* is a part of a message. Compression is off.
"""
