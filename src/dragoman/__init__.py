"""Dragoman stands between consumers of language models and whatever answers them."""

__version__ = "0.1.0"
