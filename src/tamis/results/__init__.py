"""What a study leaves in its folder, read and judged from files alone: no simulator is built and none is run."""
