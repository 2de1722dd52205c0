"""The client's side of OpenWire and of JMS, without a socket. Pure.

- A *link* is one life of a connection on the wire; the *response correlator* knows who waits for which answer, over
  links.
- Sessions, producers and consumers say what is sent; the *state tracker* repeats it to a broker after a reconnect.
"""
