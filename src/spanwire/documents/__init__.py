"""Configuration files as trees of elements with line numbers."""
