"""The synthetic MCP server that offers a consumer's tools to an agent.

An agent calls tools in the middle of a turn and waits; a consumer runs them between two requests. So the tools an agent
sees are ours: a call to one is handed to the bridge (`on_call`), and held until the bridge brings the answer, minutes or
hours later, because a person may be deciding.

One `ToolServer` serves every conversation; each has an `Endpoint` with an address and a secret of its own, over HTTP on
the loopback interface or, for agents without it, through a relay on their standard streams. Nothing of the MCP library
is imported before a tool server starts, and nothing of it is visible outside this package.
"""

from dragoman.backends.agent.toolserver.calls import PendingCall, ToolAnswer
from dragoman.backends.agent.toolserver.endpoint import Endpoint, Listing
from dragoman.backends.agent.toolserver.naming import SERVER_NAME_LENGTH
from dragoman.backends.agent.toolserver.server import ToolServer

__all__ = ["SERVER_NAME_LENGTH", "Endpoint", "Listing", "PendingCall", "ToolAnswer", "ToolServer"]
