"""System calls of a writer that are made to fail, or after which it dies."""
