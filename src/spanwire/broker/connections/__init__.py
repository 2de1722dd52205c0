"""The state of client connections: announced objects, transactions, work under way. Pure.

- A *parked send* waits for room; the broker withholds the answer.
- A *connection job* is work of one connection in slices; later requests of the connection wait for its end.
- A *transaction* gathers sends and acknowledgements; a *branch* is the part of an XA transaction at this broker.
"""
