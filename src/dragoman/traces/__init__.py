"""Traces: what goes over the wire between a client and an agent, written to a file.

A trace is a file of frames, one JSON object a line (`frames`). `recording` writes one while a command runs, without the
secrets that `cleaning` finds. `devtools/traces` plays one again.
"""
