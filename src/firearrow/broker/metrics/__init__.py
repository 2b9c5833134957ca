"""Metrics of a broker for Prometheus, under RocketMQ's names where it has them; readiness."""
