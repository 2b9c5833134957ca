"""The counts of clients, and their metrics for Prometheus and OpenTelemetry."""
