"""What clients count, and the metrics that Prometheus and OpenTelemetry get of it."""
