"""Simulators that are not Python functions: programs, and models behind a server; and tamis as such a server."""
