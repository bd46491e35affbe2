"""The providers of releases and their endpoints, each behind :class:`~idkmesh.topology.provider.Provider` (RT-5)."""
