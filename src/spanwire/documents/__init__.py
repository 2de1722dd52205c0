"""Files that people write, as trees of elements with their lines."""
