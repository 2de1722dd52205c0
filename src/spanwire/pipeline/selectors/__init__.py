"""JMS selectors over rows: as Spark columns, as filters for the broker, or by the broker's own evaluator."""
