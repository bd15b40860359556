"""What several simulator families share."""
