"""Avro: schemas, and bodies in Avro's binary encoding.

A reader is compiled of two schemas, that of the writer and that of the reader, a writer of one schema. Both are plain
functions in each other, made once; every length is checked against the octets that are left.

The specification is that of Apache Avro 1.12.
"""
