"""Judges declarations of probes: the probe matrix, Kubernetes manifests and Compose files.

Everything is a pure function of texts: nothing here opens a file, asks a cluster or imports :mod:`idkmesh.httpd`. What
the rules hold a declaration against are the clauses ``HL-x.y`` of ``docs/specifications/HEALTH_V0_1.md``.
"""
