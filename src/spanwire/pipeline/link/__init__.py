"""Connections of the pipeline to a broker, through the blocking client.

- A *source* receives messages for a batch, a *sink* sends the rows of a batch.
- The *control destination* is a queue of Spanwire brokers for durable readers (*cursors*) and exactly-once writers
  (*sinks*).
- A *reservation* is the range of messages that the broker keeps for a cursor.
"""
