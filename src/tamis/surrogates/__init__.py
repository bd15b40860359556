"""Surrogates: what stands in for a slow simulator, and says how wrong it is."""
