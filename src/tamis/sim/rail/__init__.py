"""Railway vehicles on irregular tracks: track synthesis, and multibody dynamics of cars with nonlinear suspensions."""
