"""JMS selectors over rows: pushed to the broker, as Spark columns, or by the broker's own evaluator."""
