"""A model server that does what the prompt says, for agents that want a model and have no account.

It speaks chat completions, Responses, Anthropic messages and Gemini's generateContent, all streaming. `script.py` has the words of a prompt,
`make model-server` starts it by hand.
"""

from model_server.asked import Ask, Tool
from model_server.running import ModelServer, model_server
from model_server.script import play

__all__ = ["Ask", "ModelServer", "Tool", "model_server", "play"]
