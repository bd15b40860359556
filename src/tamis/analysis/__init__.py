"""What follows from draws and from a surrogate: predictions, propagated numbers, sensitivities."""
