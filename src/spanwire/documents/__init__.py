"""Configuration files as trees of elements with line numbers.

An *element* has settings (*attributes*) and inner elements. The caller interprets the names.
"""
