"""CEL against the conformance vectors of its specification."""
