"""Ground motions: stochastic accelerograms, and their parameters from records."""
