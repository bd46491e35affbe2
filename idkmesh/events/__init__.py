"""Events: what one is, where they are kept, and how a service gives them away without waiting.

``envelope`` and ``retention`` are pure. ``store`` keeps events in one SQLite file, ``recorder`` writes them there for a
service, ``reader`` reads the file of a store that another process owns. Nothing here imports the HTTP server.

Clauses ``EV-...`` are those of ``docs/specifications/EVENTS_V0_1.md``.
"""
