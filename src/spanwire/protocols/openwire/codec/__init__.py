"""The OpenWire codec: octets to commands and back. Pure.

A *structure* has fields in a fixed order; the *tight* encoding gathers the flags of a frame in front, the *loose* one
leaves each at its place.
"""
