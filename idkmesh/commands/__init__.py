"""What each command does, a module for each; :mod:`idkmesh.cli` says what it takes."""
