"""Avro: schemas, and bodies in Avro's binary encoding.

A reader is compiled from the writer's schema and the reader's schema, a writer from one schema. Both are nested
closures, made once for each schema. A reader checks every length against the remaining octets of the body.

The specification is Apache Avro 1.12.
"""
