"""Frictional contact problems and their solvers: a library, without simulators, for families that have contacts."""
