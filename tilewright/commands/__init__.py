"""The commands of `tilewright`, one a file."""
