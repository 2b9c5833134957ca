"""Commands about the cluster and its name servers."""
