"""A bare tool server, made with the MCP SDK: one tool that answers at once.

python -m bench.bare_mcp PORT|stdio
"""

from __future__ import annotations

import sys

from mcp.server.mcpserver import MCPServer

__all__: list[str] = []

_server = MCPServer("bare", log_level="WARNING")


@_server.tool()
async def look(word: str) -> str:
    """Look something up."""
    return f"{word}: found"


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        _server.run("stdio")
    else:
        _server.run("streamable-http", port=int(sys.argv[1]))
