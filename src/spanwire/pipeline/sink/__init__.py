"""From Spark into a broker, each batch once and only once."""
