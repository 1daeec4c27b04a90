"""A small MCP client: the consumer's tools, over the standard streams of a process.

https://modelcontextprotocol.io/specification/2025-11-25. Of the protocol it has what an agent needs in order to use tools:
the handshake, `tools/list`, `tools/call` with progress and cancellation, and the notification that the list has changed. The
official client would do more, and takes a second to import.
"""

from dragoman.demo.mcp.client import RemoteTool, ToolClient, connect
from dragoman.demo.mcp.link import McpError

__all__ = ["McpError", "RemoteTool", "ToolClient", "connect"]
