"""The attributes of activemq.xml and their handling.

A *word* is the name of an attribute or element. A *rule* states the handling of a word: supported, without effect, or
refused, with a note or an advice for the operator. A *row* is an attribute that sets one field: name, kind of value,
field.
"""
