"""The arena: stock clients, the same load, our broker and Apache's in turns."""
