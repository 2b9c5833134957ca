"""Commands that operate a cluster: brokers, name servers, messages; what topics and groups need beyond listing."""
