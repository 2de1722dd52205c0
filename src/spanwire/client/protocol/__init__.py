"""The client's side of OpenWire and JMS, without sockets. Pure.

- A *link* is one connection of a socket: handshake, frames, keep-alives. A connection outlives single links.
- The *response correlator* numbers commands and matches responses to requests, over all links of a connection.
- *Sessions*, *producers* and *consumers* follow JMS. After a reconnect the *state tracker* announces all to the broker.
- *Failover* chooses addresses; a *fanout hub* connects one client with several brokers.
"""
