"""Promises of a broker to its clients, checked from outside: stock clients and Apache's tools at clusters under
trouble.

``python -m campaigns.broker`` runs the campaigns; ``docs/how-to/campaigns.md`` lists them.
"""
