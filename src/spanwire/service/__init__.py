"""Builds and runs a broker: configuration, stores, connectors, control socket.

- The *service* is one running broker with its event loop.
- A *runtime configuration* is a changed file that a running broker takes over, as far as possible without a restart.
"""
