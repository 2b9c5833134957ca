"""Our name server beside Apache's, under the same load, in one run."""
