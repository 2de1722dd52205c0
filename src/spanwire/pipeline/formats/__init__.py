"""Bodies with a schema: Avro, Protobuf and JSON, as columns and back.

- A *codec* decodes a body into one value of a Spark type, and encodes such a value. A *plan* is all that a worker needs
  to make the codec; it can be pickled.
- A *framed* body begins with the id of its schema in a *schema registry*, in Confluent's wire format.
- The *writer's* schema made the body; the *reader's* schema decides the columns.
"""
