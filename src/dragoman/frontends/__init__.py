"""Front ends: each knows its own kind of consumer, and the contract; none knows what answers."""
