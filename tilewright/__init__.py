"""tilewright."""
