"""Bytes to elements and back, and addresses; knows no broker."""
