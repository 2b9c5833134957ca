"""The soak: our broker for a long time under stock clients and ours, with deaths, and beside Apache's."""
