"""The state machine of a conversation: events in, commands out."""
