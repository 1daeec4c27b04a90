"""The front end of a worker: it takes requests from the fleet."""
