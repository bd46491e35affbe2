"""What each command does, in a module of its name; :mod:`idkmesh.cli` says what it takes.

What several need stands beside them: ``inputs`` is what all are given, ``service_start`` how those that serve begin,
``until_signal`` how they go on, ``reload_signal`` what SIGHUP does, ``target_url`` whom those that ask may ask.
"""
