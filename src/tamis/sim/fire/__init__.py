"""Steel frames in fire: heated members and frames, hybrid fire tests, fire after an earthquake."""
