"""Liveness, startup and readiness: a watchdog, a matrix of dependencies, the probes, and the verdicts from them.

Clauses ``HL-x.y`` stand in ``docs/specifications/HEALTH_V0_1.md``. Nothing here imports :mod:`idkmesh.httpd`.
"""
