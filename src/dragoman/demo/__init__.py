"""What can be tried without any account or network."""
