"""The web port: what happens to a connection and a request before a route sees it.

- The *server* (`server`) runs uvicorn on the sockets that *listening* (`listening`) opens, with the *keys* (`keys`) of
  TLS.
- The *guard* (`guard`) refuses malformed requests before any route: foreign hosts and origins, too large bodies.
- A *deadline* (`deadline`) ends requests that take too long to arrive.
"""
