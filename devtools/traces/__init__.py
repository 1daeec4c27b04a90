"""Traces, read and played again.

`dragoman --record` writes a trace (`dragoman.traces`). `reading` reads one; `player` takes either side of it, says what
that side said, and compares what it hears with what is written (`sameness`).
"""
