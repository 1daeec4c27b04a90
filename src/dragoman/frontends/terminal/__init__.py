"""The terminal front end: a chat for a person, one prompt for a script, JSON lines for a program.

Nothing is imported here: other commands use parts of it, and a chat takes a fifth of a second to import.
"""
