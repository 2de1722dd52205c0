"""Sources that read batches from a broker and keep each batch until Spark has committed it.

- A *segment* is a batch on the local disk; a *cursor* leaves the batch at the broker.
- *Offsets* are the positions that Spark stores in its checkpoint.
"""
