"""Sources that read batches from a broker and keep each until Spark has committed it.

Spark stores in its checkpoint.

Args:
    *segment* is a batch on the local disk; a *cursor* leaves the batch at the broker. *Offsets* are the positions that
"""
