"""Links of a broker to other brokers, announcements of the broker, and questions to the others.

- The *networking* is all network connectors of a broker with the announcements.
- An *announcement* makes a connector known to a discovery group; the *gossip* carries connectors from broker to broker.
- A *network question* goes to the other brokers: why, trace or route.
"""
