"""A small shop of real processes, watched by a control tower, in which things go wrong on purpose (DM)."""
