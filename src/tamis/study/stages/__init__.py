"""The stages of a study: `table` says what each depends on and leaves, the module of its name does the work."""
