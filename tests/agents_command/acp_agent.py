"""A small agent that speaks ACP with nothing but the standard library: what the packages of these tests contain.

Its first argument is a JSON object:

    version                 what it says of itself
    start                   "exit" for one that is broken
    refuses                 a variable that must not be in its environment
    login                   for one that wants that
    account, methods        it wants a login until that file exists; its command with the argument `login` makes the file.
                            The ways to log in that it names
    refused                 what it refuses for want of that: "session/new" (the default), or "session/prompt"
    calls, wary             whether it calls the tool that it is offered, and asks about that in a form of its own
    unasked, defies, skips  what it does without asking, although it was refused, or not at all: "command", "edit",
                            "delete", "fetch"; what is in none of them it asks about, and leaves when it is refused
    claims                  what it says that it has done, and has not
    client                  for one that edits through its client, where that offers it
    ends                    a refusal ends its turn
    gives_up                where this is asked for, it ends its turn instead
    later                   what it does when it is asked for something else, although it was refused
    mute                    it asks about something, without a word of what
    vague                   it asks, but about no action: "plan" for one question about all of them, "quotes" for a harmless
                            command with the prompt beside it, "reads" for looking at each file and page
    title                   what it is called
    way                     what its way to log in is called
    images                  whether it says that it takes pictures; it never looks at one
    sees                    what it says of a picture; a number instead: the error that it answers with
    state                   {…}: what it says of the modes and options of a session that it opens
    fails                   [CODE, TEXT]: the error that it answers every prompt with
    fails_late              it answers the prompt that it is stopped in with an error
    dies                    it prints what it is asked for to its standard error, and ends
    deaf                    it cannot be stopped
"""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_REQUESTS = {
    "command": re.compile(r"`(echo dragoman > [^`]+)`"),
    "edit": re.compile(r"[Ww]rite `([^`]+)` into `([^`]+)`"),
    "delete": re.compile(r"[Dd]elete the file `([^`]+)`"),
    "fetch": re.compile(r"[Ff]etch `([^`]+)`"),
}
_KINDS = {"command": "execute", "edit": "edit", "delete": "delete", "fetch": "fetch"}


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


class Agent:
    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        self.tools: Tools | None = None
        self.folder = Path()
        self.offers_files = False
        # The prompt that is being answered.
        self.prompt: object = None
        self.asked = 0
        self.later: re.Match[str] | None = None
        self.lines: Iterator[str] = iter(sys.stdin.readline, "")

    def send(self, **message: object) -> None:
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

    def update(self, **fields: object) -> None:
        self.send(method="session/update", params={"sessionId": "s", "update": fields})

    def say(self, text: str) -> None:
        self.update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": text})

    def end(self, reason: str) -> None:
        self.send(id=self.prompt, result={"stopReason": reason})

    def ask(self, method: str, params: dict[str, object]) -> dict[str, Any]:
        """What the client replies."""
        self.asked += 1
        id_ = f"ask-{self.asked}"
        self.send(id=id_, method=method, params={"sessionId": "s", **params})
        return next(reply for line in self.lines if (reply := json.loads(line)).get("id") == id_)

    def is_allowed(self, call: dict[str, object]) -> bool:
        kinds = ("allow_once", "reject_once")
        options = [{"optionId": kind, "name": kind, "kind": kind} for kind in kinds]
        reply = self.ask("session/request_permission", {"toolCall": call, "options": options})
        return bool(reply["result"]["outcome"].get("optionId") == "allow_once")

    # Acting.

    def act(self, words: str) -> None:
        found = {name: match for name, form in _REQUESTS.items() if (match := form.search(words))}
        if self.options.get("calls") and "dragoman_check" in words:
            assert self.tools is not None
            [name] = self.tools.names
            self.tools.ask("tools/call", {"name": name, "arguments": {"word": "ping"}})
        if self.options.get("wary") and self.tools is not None and "dragoman_check" in words:
            is_allowed = self.is_allowed({"toolCallId": "c", "title": self.tools.names[0]})
            if not is_allowed and self.options.get("ends"):
                found = {}
        if self.options.get("vague"):
            self.ask_vaguely(words, [*found.values()])
            found = {}
        for name, match in sorted(found.items(), key=lambda each: each[1].start()):
            if name == self.options.get("later"):
                self.later = match
            if name == self.options.get("gives_up"):
                break
            if name in self.options.get("skips", ()):
                continue
            if not self.take(name, match) and self.options.get("ends"):
                break
        self.say("Hello from the package.")
        self.end("end_turn")

    def take(self, name: str, match: re.Match[str]) -> bool:
        """Whether it was not refused."""
        call: dict[str, object] = {"toolCallId": name, "title": match[0], "kind": _KINDS[name]}
        if self.options.get("mute"):
            call = {"toolCallId": name, "title": "Tool"}
        self.update(sessionUpdate="tool_call", status="pending", **call)
        if name in self.options.get("claims", ()):
            self.update(sessionUpdate="tool_call_update", toolCallId=name, status="completed")
            return True
        if name == "edit" and self.options.get("client") and self.offers_files:
            return self.write_through_client(match)
        is_allowed = name in self.options.get("unasked", ()) or self.is_allowed({"toolCallId": name})
        if is_allowed or name in self.options.get("defies", ()):
            self.do(name, match)
        status = "completed" if is_allowed else "failed"
        self.update(sessionUpdate="tool_call_update", toolCallId=name, status=status)
        return is_allowed

    def ask_vaguely(self, words: str, found: list[re.Match[str]]) -> None:
        match self.options["vague"]:
            case "plan":
                text = {"type": "text", "text": "\n".join(match[0] for match in found)}
                plan = [{"type": "content", "content": text}]
                self.is_allowed(
                    {"toolCallId": "v", "title": "Ready?", "kind": "switch_mode", "content": plan}
                )
            case "quotes":
                given = {"command": "ls", "why": words}
                self.is_allowed({"toolCallId": "v", "title": "ls", "kind": "execute", "rawInput": given})
            case _:
                for match in found:
                    name = match[match.re.groups].rpartition(" ")[2]
                    self.is_allowed({"toolCallId": name, "title": f"ReadFile {name}", "kind": "other"})

    def do(self, name: str, match: re.Match[str]) -> None:
        match name:
            case "command":
                subprocess.run(("sh", "-c", match[1]), cwd=self.folder, check=True)
            case "edit":
                (self.folder / match[2]).write_text(match[1])
            case "delete":
                (self.folder / match[1]).unlink()
            case _:
                urllib.request.build_opener(urllib.request.ProxyHandler({})).open(match[1]).read()

    def write_through_client(self, match: re.Match[str]) -> bool:
        path = str(self.folder / match[2])
        before = self.ask("fs/read_text_file", {"path": path})["result"]["content"]
        reply = self.ask("fs/write_text_file", {"path": path, "content": f"{match[1]}, not {before}"})
        return "result" in reply

    # As a server.

    def serve(self) -> None:
        for line in self.lines:
            message = json.loads(line)
            self.take_message(message.get("method"), message.get("id"), message.get("params", {}))

    def take_message(self, method: object, id_: object, params: dict[str, Any]) -> None:
        options = self.options
        if method == "initialize":
            files = params.get("clientCapabilities", {}).get("fs", {})
            self.offers_files = bool(files.get("writeTextFile"))
            info = {"name": "packaged", "title": options.get("title"), "version": options.get("version", "0")}
            methods = [{"id": "key", "name": options.get("way", "A key")}] if options.get("login") else []
            methods += options.get("methods", [])
            can = {"promptCapabilities": {"image": bool(options.get("images"))}}
            said = {"agentInfo": info, "authMethods": methods, "agentCapabilities": can}
            self.send(id=id_, result={"protocolVersion": 1, **said})
        elif method == "authenticate":
            Path(options["account"]).touch()
            self.send(id=id_, result={})
        elif method in self.refused():
            self.send(id=id_, error={"code": -32000, "message": "Authentication required"})
        elif method == "session/new":
            self.tools = Tools(params["mcpServers"][0]) if params["mcpServers"] else None
            self.folder = Path(params["cwd"])
            self.send(id=id_, result={"sessionId": "s", **options.get("state", {})})
        elif method == "session/set_mode":
            self.send(id=id_, result={})
        elif method == "session/prompt":
            self.prompt = id_
            self.take_prompt(params["prompt"])
        elif method == "session/cancel" and not options.get("deaf"):
            self.end("cancelled")

    def refused(self) -> tuple[str, ...]:
        """What it refuses for want of a login."""
        if self.options.get("login"):
            return ("session/new",)
        if "account" in self.options and not Path(self.options["account"]).exists():
            return (self.options.get("refused", "session/new"),)
        return ()

    def take_prompt(self, blocks: list[dict[str, Any]]) -> None:
        options, words = self.options, "".join(block.get("text", "") for block in blocks)
        if options.get("dies"):
            print(words, file=sys.stderr, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        elif "fails" in options:
            code, text = options["fails"]
            self.send(id=self.prompt, error={"code": code, "message": text})
        elif any(block["type"] == "image" for block in blocks):
            self.look(options.get("sees", "I see no picture."))
        elif "numbers" in words:
            if self.later is not None:
                self.do(self.options["later"], self.later)
            if options.get("fails_late"):
                self.send(id=self.prompt, error={"code": -32603, "message": "no more today"})
            else:
                self.say("one")
        else:
            self.act(words)

    def look(self, sees: str | int) -> None:
        if isinstance(sees, int):
            self.send(id=self.prompt, error={"code": sees, "message": "this model is blind"})
        else:
            self.say(sees)
            self.end("end_turn")


def main() -> None:
    options = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
    if sys.argv[2:] == ["login"]:
        input("Your name: ")
        Path(options["account"]).touch()
        print("You are logged in.")
        return
    if options.get("start") == "exit" or options.get("refuses", "") in os.environ:
        print("a part of me is missing", file=sys.stderr)
        sys.exit(3)
    Agent(options).serve()


if __name__ == "__main__":
    main()
