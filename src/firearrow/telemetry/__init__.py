"""Logs and metrics: one line an event, repeats damped; counters, histograms, readiness."""
