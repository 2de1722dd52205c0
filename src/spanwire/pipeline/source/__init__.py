"""Sources that read batches from a broker and keep them until Spark has committed them."""
