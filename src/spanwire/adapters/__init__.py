"""Spanwire as the broker of other Python libraries.

Each package has an extra, and reaches the client alone.
"""
