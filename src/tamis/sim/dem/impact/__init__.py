"""One impact of a sphere on a wall."""
