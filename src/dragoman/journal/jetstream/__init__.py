"""Journals on JetStream."""
