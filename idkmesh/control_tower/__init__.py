"""The control tower's documents, its session security, and the files of its page."""
