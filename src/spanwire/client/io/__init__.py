"""Access of the client to the machine: sockets, clocks and the search for announced brokers."""
