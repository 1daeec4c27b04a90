"""Models of other machines, through the fleet."""
