"""From likelihood to posterior: samplers, diagnostics, model selection."""
