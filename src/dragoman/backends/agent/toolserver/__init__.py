"""The synthetic MCP server that offers a consumer's tools to an agent.

An agent calls tools in the middle of a turn and waits; a consumer runs them between two requests. So the tools an agent
sees are ours: a call to one is handed to the bridge (`on_call`), and held until the bridge brings the answer, minutes or
hours later, because a person may be deciding.

One `ToolServer` serves every conversation; each has an `Endpoint` with an address and a secret of its own, over HTTP on
the loopback interface or, for agents without it, through a relay on their standard streams. `session` knows what MCP
says, `service` what it is said about, `over_http` and `over_socket` how it gets here; over HTTP, `streamable` has a
conversation's sessions, and `exchange` is HTTP for requests that wait.
"""

from dragoman.backends.agent.toolserver.calls import PendingCall
from dragoman.backends.agent.toolserver.endpoint import Endpoint
from dragoman.backends.agent.toolserver.naming import SERVER_NAME_LENGTH
from dragoman.backends.agent.toolserver.server import ToolServer

__all__ = ["SERVER_NAME_LENGTH", "Endpoint", "PendingCall", "ToolServer"]
