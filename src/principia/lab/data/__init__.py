"""Data sets, one file each: embedded in packages, or found on disk."""
