"""The sans-IO remoting protocol: how a conversation goes, without doing any of it."""
