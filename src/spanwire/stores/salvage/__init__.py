"""What is good in a damaged store, and how it is put right. Pure."""
