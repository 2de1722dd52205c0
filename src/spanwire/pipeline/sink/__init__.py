"""Sinks that write each batch of Spark into a broker once and only once.

Tasks *stage* the rows of a partition, invisible to consumers; the driver *commits* the batch. The *ledger* records the
last committed batch of a query: in Spanwire itself, in any other broker as a message in a queue. A *branch* is an XA
transaction branch.
"""
