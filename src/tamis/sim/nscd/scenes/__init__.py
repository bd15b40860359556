"""Scenes with known answers, by theme: what the simulators run, and what tests and benchmarks share."""
