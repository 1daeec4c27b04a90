"""The HTTP front end: Open Responses and chat completions, for any client that speaks either."""
