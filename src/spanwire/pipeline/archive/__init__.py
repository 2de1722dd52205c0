"""Archives of messages in Parquet, the replay of archives, and the redrive of dead letters."""
