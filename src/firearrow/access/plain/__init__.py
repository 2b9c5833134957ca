"""Accounts of 4.9: ``plain_acl.yml``, read, changed and asked for."""
