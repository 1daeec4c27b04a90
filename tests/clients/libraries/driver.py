"""Runs Python libraries as clients. It is a script of its own, in an environment that has them.

Each line of standard input is a job, and each line of standard output is what came of it:

    {"id": 1, "client": "openai-python", "scenario": "text", "url": "…", "model": "…", "prompts": ["…"]}
    {"id": 1, "piece": "Hel"}
    {"id": 1, "result": {"texts": ["Hello."], "thinking": "", "calls": [], "objects": []}}
    {"id": 1, "error": "Traceback …"}
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import sys
import traceback
from pathlib import Path

# It runs as a script. The tests come last: a folder of theirs has the name of a library.
sys.path.append(str(Path(__file__).parents[2]))
from clients.libraries.job import Job

# The class of each client, and its module.
CLIENTS = {
    "openai-python": ("openai_responses", "OpenAIResponses"),
    "openai-python-websocket": ("openai_websocket", "OpenAIWebSocket"),
    "openai-python-chat": ("openai_chat", "OpenAIChat"),
    "agents-sdk": ("agents_sdk", "AgentsSdk"),
    "langchain": ("langchain_models", "LangChainResponses"),
    "langchain-chat": ("langchain_models", "LangChainChat"),
    "langgraph": ("langgraph_agent", "LangGraph"),
    "pydantic-ai": ("pydantic_agents", "PydanticResponses"),
    "pydantic-ai-chat": ("pydantic_agents", "PydanticChat"),
    "instructor": ("instructor_client", "Instructor"),
    "litellm": ("litellm_client", "LiteLlm"),
}


async def main() -> None:
    # Only answers go to the harness: a library may print what it likes.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    while line := await asyncio.to_thread(sys.stdin.readline):
        asked = json.loads(line)
        job = Job(asked, answers)
        try:
            module, name = CLIENTS[asked["client"]]
            client = getattr(importlib.import_module(f"clients.libraries.{module}"), name)(job)
            await getattr(client, asked["scenario"])()
        except BaseException:
            job.tell({"error": traceback.format_exc()})
            continue
        job.tell({"result": job.result()})


if __name__ == "__main__":
    asyncio.run(main())
