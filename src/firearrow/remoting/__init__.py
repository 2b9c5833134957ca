"""The protocol over asyncio: connections, servers, callers. This package decides nothing about messages."""
