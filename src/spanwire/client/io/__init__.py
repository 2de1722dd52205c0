"""This machine as the client sees it: sockets, clocks, brokers that announce themselves."""
