"""From a broker into Spark: batches that are kept until Spark has committed them."""
