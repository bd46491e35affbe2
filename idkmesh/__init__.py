"""IDKMesh tells the truth about a node, and serves it safely."""

__version__ = "0.1.0"
