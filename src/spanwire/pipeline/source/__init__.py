"""Sources that read batches from a broker, and keep each batch until Spark has committed the batch.

- A *segment* is a batch in a staging directory; a *cursor* leaves the batch at the broker.
- *Offsets* are positions, stored by Spark in the checkpoint.
"""
