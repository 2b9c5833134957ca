"""The store measured: every figure beside the least that could do the same, in one run."""
