"""What a consumer receives: the reply under way and the parts made from an agent's updates."""
