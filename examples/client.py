"""An OpenAI client of `dragoman serve`, whose model is an agent that asks before it acts.

    dragoman serve &
    python examples/client.py 'run `echo hello`'

Needs `pip install openai`. The server is taken from OPENAI_BASE_URL, else it is where `dragoman serve` listens by itself.
"""

from __future__ import annotations

import json
import os
import sys

from openai import OpenAI
from openai.types.responses import FunctionToolParam, ResponseFunctionToolCall, ResponseInputParam

# Who offers these functions is asked; who does not leaves it to the model's `permission` setting.
KINDS = ("read", "edit", "delete", "execute", "fetch", "other", "sensitive")
PERMISSIONS: list[FunctionToolParam] = [
    {
        "type": "function",
        "name": f"dragoman-agent-action-{kind}",
        "parameters": {"type": "object"},
        "strict": False,
    }
    for kind in KINDS
]


def main(prompt: str) -> None:
    client = OpenAI(
        base_url=os.environ.get("OPENAI_BASE_URL", "http://127.0.0.1:8427/v1"),
        api_key=os.environ.get("OPENAI_API_KEY", "none"),
    )
    news: str | ResponseInputParam = prompt
    previous: str | None = None
    while True:
        response = client.responses.create(
            model="demo", input=news, tools=PERMISSIONS, previous_response_id=previous
        )
        print(response.output_text, end="", flush=True)
        calls = [item for item in response.output if isinstance(item, ResponseFunctionToolCall)]
        if not calls:
            return
        news = [
            {"type": "function_call_output", "call_id": call.call_id, "output": decided(call)}
            for call in calls
        ]
        previous = response.id


def decided(call: ResponseFunctionToolCall) -> str:
    """Show what the agent wants, and ask. The nonce says which request the answer is for."""
    wish = json.loads(call.arguments)
    print(f"\n{wish['details']}\n")
    if is_allowed():
        return json.dumps({"decision": "allow", "nonce": wish["nonce"]})
    return json.dumps({"decision": "deny", "reason": "not today"})


def is_allowed() -> bool:
    """Ask at the terminal. The end of the input counts as a no."""
    try:
        return input("Allow this once? [y/N] ").strip().lower() == "y"
    except EOFError:
        return False


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]) or "What is in this folder?")
