"""The pipeline's connections to a broker, by the blocking client."""
