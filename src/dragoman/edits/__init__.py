"""Changes of files by agents: what a request would change, what a turn has changed, and taking that back."""
