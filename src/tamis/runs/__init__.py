"""Runs: how they are made, by whom, and how they are kept."""
