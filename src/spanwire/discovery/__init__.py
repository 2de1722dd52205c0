"""Where other brokers are: one module for each way to find them, all of one shape."""
