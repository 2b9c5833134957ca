"""CEL filters: Google's Common Expression Language over the properties and the JSON body of a message. Pure."""
