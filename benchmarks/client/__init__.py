"""Our client beside the other Python clients and Apache's Java client."""
