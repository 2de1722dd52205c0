"""The start of a journal: the index made again from segments and their summaries. Pure."""
