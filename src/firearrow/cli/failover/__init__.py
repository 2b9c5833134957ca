"""``firearrow failover``: operators' acts on groups that elect their master."""
