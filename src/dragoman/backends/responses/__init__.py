"""An Open Responses endpoint as a language model.

`sse`, `events`, `items`, `tools`, `call_ids`, `failures` and `retries` take values and return values; `http` talks to the
endpoint, and `model` puts them together.
"""
