"""Builds and runs a broker: configuration, stores, connectors, control socket.

- The *service* is one running broker with an event loop.
- A *runtime configuration* is a changed file applied to a running broker, as far as possible without a restart.
"""
