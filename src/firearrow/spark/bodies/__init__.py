"""Bodies of messages as rows of a schema: JSON, read strictly."""
