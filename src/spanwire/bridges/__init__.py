"""Bridges: messages from one provider to another, message by message, beside the broker.

- A *bridge* takes messages from a *source*, changes them in *steps*, and sends them to a *target*.
- A *provider* is a way to reach brokers, such as OpenWire. It opens sources and targets behind the ports of `ports`.
- A *batch* is what a bridge receives, sends and acknowledges together.
- A *quality of service* is the order in which the batch is sent and acknowledged (AT_MOST_ONCE, DUPLICATES_OK,
  ONCE_AND_ONLY_ONCE), by the names of the JMS bridge of ActiveMQ Artemis.
- A *link* is one pair of connections of a bridge; a failed link is closed, and the next attempt opens a new one.

`model` has the definition of a bridge and its messages, `engine` decides, `running` performs, `files` read definitions.
"""
