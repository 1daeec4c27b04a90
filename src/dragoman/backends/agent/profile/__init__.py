"""What is known of an agent: its settings, its traits, and what it was seen to do."""
