"""The asyncio driver of the protocol: moves conversations over the network, and decides nothing about messages."""
