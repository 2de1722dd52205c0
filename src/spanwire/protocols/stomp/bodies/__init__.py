"""Bodies and headers as text: JMS types, maps as XML and JSON. Pure.

A *transformation* converts map messages to text and back, by the header of a SUBSCRIBE or SEND.
"""
