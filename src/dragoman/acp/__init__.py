"""The Agent Client Protocol: messages as types, and a connection to one agent."""
