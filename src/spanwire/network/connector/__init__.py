"""Network connectors: open the sockets of bridges, and connect again after each break."""
