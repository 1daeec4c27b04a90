"""One run of an agent: its session, and what the agent sends and requests in it."""
