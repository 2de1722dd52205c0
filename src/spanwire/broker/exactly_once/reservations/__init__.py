"""The messages that a cursor reserves, and how a browser reads them. Pure.

- A *reservation* takes pending messages of a queue or durable subscription for one cursor, and returns them.
- The *reserved messages* stand in the order of the cursor's numbers; a *range* is a run of these numbers.
"""
