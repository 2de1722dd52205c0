"""Links of a broker to other brokers, and what it says of itself and asks them.

- The *networking* is all network connectors of a broker with its announcements.
- An *announcement* makes a connector known to a discovery group; the *gossip* carries connectors from broker to broker.
- A *network question* is put to the other brokers: why, trace or route.
"""
