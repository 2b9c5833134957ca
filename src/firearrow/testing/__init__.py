"""The testing kit, shipped to users: real clusters, simulated ones, a pytest plugin.

    async with Cluster() as cluster:                      # a real name server and broker, in this process
        async with Producer(cluster.address) as producer:
            ...

``firearrow.testing.blocking`` has the same without ``await``; the pytest plugin has fixtures; ``simulate`` runs a
scenario under virtual time. The names here are imported when they are first used.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from firearrow.testing.cluster import Cluster
    from firearrow.testing.simulated import SimulatedCluster, simulate

__all__ = ["Cluster", "SimulatedCluster", "simulate"]


def __getattr__(name: str) -> object:
    if name == "Cluster":
        from firearrow.testing import cluster

        return cluster.Cluster
    if name in __all__:
        from firearrow.testing import simulated

        return getattr(simulated, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
