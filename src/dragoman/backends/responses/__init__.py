"""An Open Responses endpoint as a language model.

`sse`, `events`, `items`, `tools`, `call_ids`, `listing`, `failures` and `retries` take values and return values; `http` talks
to the endpoint, and `model` puts them together. `event_rules` says what an endpoint's events must be, and `event_check` checks
one by them.
"""
