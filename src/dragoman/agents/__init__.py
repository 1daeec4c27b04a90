"""Agents: the catalogue, and installing them on this machine.

The catalogue is a file in the format of the public ACP registry, with what we found out about each agent beside what
its makers say. Agents are installed only at the user's request, into a folder of our own.
"""
