"""One study file, from its text to its results; the only place where all the parts are put together."""
