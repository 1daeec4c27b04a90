"""Traces: what went over the wire between a client and an agent, written down and played again.

A trace is a file of frames, one JSON object a line (`frames`). `recording` writes one while a command runs; `player` takes
either side of one, says what that side said, and compares what it hears with what is written (`sameness`).
"""
