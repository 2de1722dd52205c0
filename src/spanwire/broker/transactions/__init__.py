"""Local and distributed transactions: begun, prepared, committed, rolled back, recovered. Pure."""
