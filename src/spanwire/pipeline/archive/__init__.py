"""Messages kept in Parquet, and sent again from there."""
