"""Filter expressions: SQL92 over the properties of a message, parsed, checked and compiled to closures. Pure."""
