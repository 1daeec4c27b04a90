"""Tools for those who work on Dragoman. Run them from a checkout; they are not installed with the package."""
