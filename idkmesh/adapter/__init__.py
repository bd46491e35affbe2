"""Readiness over HTTP for a node that is only known through its authenticated command (RA)."""
