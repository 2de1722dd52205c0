"""The OpenWire codec: converts octets to commands and commands to octets. Pure.

A *structure* has fields in a fixed order. The *tight* encoding collects the flags of a frame at its beginning, the
*loose* encoding writes each flag in its field.
"""
