"""Discrete elements: spheres that touch through springs, dashpots and dry friction."""
