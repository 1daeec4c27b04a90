"""Answers in a requested form: the JSON value in an agent's words, and whether a schema accepts it."""
