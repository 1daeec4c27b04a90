"""An Open Responses endpoint as a language model.

`sse`, `events`, `items`, `tools`, `call_ids`, `listing`, `failures` and `retries` take values and return values; `http` talks
to the endpoint, and `model` puts them together. `checker.event_rules` has the rules for an endpoint's events.
"""
