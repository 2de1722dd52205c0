"""The client's end of OpenWire over HTTP: a client's frames become requests, answers become frames."""
