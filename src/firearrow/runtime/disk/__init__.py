"""Files: the door that the store uses, and the operating system's disk behind it."""
