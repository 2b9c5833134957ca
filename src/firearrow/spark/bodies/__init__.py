"""Bodies of messages as rows of a schema: JSON, Avro and Protobuf, read strictly."""
