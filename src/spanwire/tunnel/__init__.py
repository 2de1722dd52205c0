"""The client's end of OpenWire over HTTP: frames of a client become requests, and answers become frames."""
