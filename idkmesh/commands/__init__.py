"""What each command does, a module for each; :mod:`idkmesh.cli` says what it takes.

What several need stands beside them: how those that serve begin in ``starting``, what all are given in ``inputs``.
"""
