"""A small agent that speaks ACP with nothing but the standard library: what the packages of these tests contain.

Its first argument is a JSON object: `version`; `start`, "exit" for one that is broken; `refuses`, a variable that must not
be in its environment; `login`, for one that wants that;
`calls`, whether it calls the tool that it is offered, and `wary`, for one that asks about that; `asks`, whether it asks
before it runs a command; `stubborn`, for one that runs it in any case; `deaf`, for one that cannot be stopped.
"""

import json
import os
import subprocess
import sys
from typing import Any


class Tools:
    """A client of the tool server that the session is given, on its standard streams."""

    def __init__(self, server: dict[str, Any]) -> None:
        env = {**os.environ, **{each["name"]: each["value"] for each in server["env"]}}
        command = [server["command"], *server["args"]]
        process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdin is not None
        assert process.stdout is not None
        self.stdin, self.stdout = process.stdin, process.stdout
        self.count = 0
        client = {"name": "packaged", "version": "0"}
        self.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client})
        self.send(method="notifications/initialized")
        self.names = [tool["name"] for tool in self.ask("tools/list", {})["tools"]]

    def send(self, **message: object) -> None:
        self.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.stdin.flush()

    def ask(self, method: str, params: object) -> Any:
        self.count += 1
        self.send(id=self.count, method=method, params=params)
        while True:
            answer = json.loads(self.stdout.readline())
            if answer.get("id") == self.count:
                return answer["result"]


def main() -> None:
    options = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
    if options.get("start") == "exit" or options.get("refuses", "") in os.environ:
        print("a part of me is missing", file=sys.stderr)
        sys.exit(3)
    waiting: dict[str, Any] = {}

    def send(**message: object) -> None:
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

    def update(**fields: object) -> None:
        send(method="session/update", params={"sessionId": "s", "update": fields})

    def command(status: str) -> None:
        name = "tool_call" if status == "pending" else "tool_call_update"
        update(sessionUpdate=name, toolCallId="t", title="echo dragoman", kind="execute", status=status)

    def finish(status: str) -> None:
        command(status)
        update(
            sessionUpdate="agent_message_chunk", content={"type": "text", "text": "Hello from the package."}
        )
        send(id=waiting.pop("prompt"), result={"stopReason": "end_turn"})

    for line in sys.stdin:
        message = json.loads(line)
        method, id_ = message.get("method"), message.get("id")
        if method == "initialize":
            info = {"name": "packaged", "version": options.get("version", "0")}
            methods = [{"id": "key", "name": "A key"}] if options.get("login") else []
            send(id=id_, result={"protocolVersion": 1, "agentInfo": info, "authMethods": methods})
        elif method == "session/new" and options.get("login"):
            send(id=id_, error={"code": -32000, "message": "Authentication required"})
        elif method == "session/new":
            waiting["tools"] = Tools(message["params"]["mcpServers"][0])
            send(id=id_, result={"sessionId": "s"})
        elif method == "session/prompt":
            waiting["prompt"] = id_
            words = message["params"]["prompt"][-1]["text"]
            if "numbers" in words:
                update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": "one"})
            elif "echo dragoman" not in words:
                finish("completed")
            elif options.get("asks", True):
                if options.get("calls"):
                    [name] = waiting["tools"].names
                    waiting["tools"].ask("tools/call", {"name": name, "arguments": {"word": "ping"}})
                command("pending")
                choices = [
                    {"optionId": kind, "name": kind, "kind": kind} for kind in ("allow_once", "reject_once")
                ]
                call = (
                    {"toolCallId": "c", "title": waiting["tools"].names[0]}
                    if options.get("wary")
                    else {"toolCallId": "t"}
                )
                params = {"sessionId": "s", "toolCall": call, "options": choices}
                send(id="ask", method="session/request_permission", params=params)
            else:
                command("pending")
                finish("completed")
        elif id_ == "ask":
            granted = message["result"]["outcome"].get("optionId") == "allow_once"
            finish("completed" if granted or options.get("stubborn") else "failed")
        elif method == "session/cancel" and not options.get("deaf"):
            send(id=waiting.pop("prompt"), result={"stopReason": "cancelled"})


if __name__ == "__main__":
    main()
