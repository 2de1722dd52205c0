"""Network connectors: the sockets of bridges, connected again whenever a link breaks."""
