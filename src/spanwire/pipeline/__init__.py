"""Messages in PySpark: the data source ``spanwire`` and what it is made of. Uses the client alone, never the broker."""
