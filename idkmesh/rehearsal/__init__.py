"""A local orchestrator that rehearses what a cluster would do with a service and its probe matrix (HL-8)."""
