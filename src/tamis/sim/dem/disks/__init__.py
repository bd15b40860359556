"""Many disks in a plane: the soft-disk engine and its scenes."""
