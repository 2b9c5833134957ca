"""One hostile client of each kind beside a stock producer and consumer."""
