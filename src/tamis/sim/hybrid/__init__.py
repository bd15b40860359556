"""Hybrid tests of structures: actuators on a specimen, and a computed structure coupled with one in the laboratory."""
