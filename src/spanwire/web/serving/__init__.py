"""The web port: the steps of a connection and a request before a route.

- The *server* (`server`) runs uvicorn on the sockets opened by *listening* (`listening`), with the *keys* (`keys`) of
  TLS.
- The *guard* (`guard`) refuses malformed requests before any route: foreign hosts and origins, too large bodies.
- A *deadline* (`deadline`) ends requests with a too slow arrival.
"""
