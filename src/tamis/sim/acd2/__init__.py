"""Grains that collide by pseudo-potentials of dissipation: the A-CD2 method, from one grain to a gabion."""
