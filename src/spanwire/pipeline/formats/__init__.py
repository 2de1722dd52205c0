"""Bodies with a schema: Avro, Protobuf and JSON, as columns and back.

- A *codec* decodes a body into one value of a Spark type, and encodes such a value. A *plan* is the picklable
  description from which a worker makes the codec.
- A *framed* body begins with a schema id of a *schema registry*, in Confluent's wire format.
- The *writer's* schema made the body; the *reader's* schema decides the columns.
"""
