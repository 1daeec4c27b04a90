"""Completion of our command line in the shells: for each, a script that is made from the parsers."""
