"""What the bridge costs, measured. `make bench` runs all of it."""
