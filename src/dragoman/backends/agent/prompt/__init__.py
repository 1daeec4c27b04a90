"""What an agent is sent: prompts, replayed history and context."""
