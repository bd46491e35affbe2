"""Application readiness: commands that run inside instances, what comes of them, and careful restarts (AR)."""
