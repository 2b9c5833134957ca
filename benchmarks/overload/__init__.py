"""Our broker with more work than it can do, more connections than it needs, more waiting pulls than anybody has."""
