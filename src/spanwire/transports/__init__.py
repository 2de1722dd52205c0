"""The only sockets of the broker: TCP transport, connector and the pump that joins them to a protocol."""
