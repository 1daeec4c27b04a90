"""The OpenAI Agents SDK: its runner, its sessions and its function tools."""

from __future__ import annotations

import importlib
from typing import Any

from openai import AsyncOpenAI

from clients.libraries.job import KEY, TOOLS, City, Job

__all__ = ["AgentsSdk"]

# Its package has the name of a folder of the tests, which a type checker takes for it.
sdk: Any = importlib.import_module("agents")


class AgentsSdk:
    def __init__(self, job: Job) -> None:
        self.job = job
        client = AsyncOpenAI(base_url=job.url, api_key=KEY)
        self.model = sdk.OpenAIResponsesModel(model=job.model, openai_client=client)

    def agent(self, **fields: Any) -> Any:
        return sdk.Agent(name="Assistant", model=self.model, **fields)

    def tools(self) -> list[Any]:
        return [self._tool(name, words) for name, words in TOOLS.items()]

    def _tool(self, name: str, words: str) -> Any:
        def function(word: str) -> str:
            return self.job.call(name, word=word)

        return sdk.function_tool(function, name_override=name, description_override=words)

    async def text(self) -> None:
        result = await sdk.Runner.run(self.agent(), self.job.prompt)
        self.job.texts.append(result.final_output)

    async def stream(self) -> None:
        result = sdk.Runner.run_streamed(self.agent(), self.job.prompt)
        async for event in result.stream_events():
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                self.job.piece(event.data.delta)
        self.job.texts += _messages(result)

    async def tool_loop(self) -> None:
        result = await sdk.Runner.run(self.agent(tools=self.tools()), self.job.prompt)
        self.job.texts.append(result.final_output)

    async def parallel_tools(self) -> None:
        result = sdk.Runner.run_streamed(self.agent(tools=self.tools()), self.job.prompt)
        async for _ in result.stream_events():
            pass
        self.job.texts.append(result.final_output)

    async def second_turn(self) -> None:
        session = sdk.SQLiteSession("second-turn")
        for prompt in self.job.prompts:
            result = await sdk.Runner.run(self.agent(), prompt, session=session)
            self.job.texts.append("".join(_messages(result)))

    async def thinking(self) -> None:
        result = await sdk.Runner.run(self.agent(), self.job.prompt)
        [item] = [item.raw_item for item in result.new_items if item.type == "reasoning_item"]
        self.job.thinking = "".join(part.text for part in item.summary)
        self.job.texts.append(result.final_output)

    async def structured(self) -> None:
        result = await sdk.Runner.run(self.agent(output_type=City), self.job.prompt)
        self.job.objects.append(result.final_output)

    async def abort(self) -> None:
        result = sdk.Runner.run_streamed(self.agent(), self.job.prompt)
        async for event in result.stream_events():
            is_text = event.type == "raw_response_event" and event.data.type == "response.output_text.delta"
            if is_text and self.job.begun(event.data.delta):
                result.cancel()


def _messages(result: Any) -> list[str]:
    """The texts of all messages. The final output is the last one only."""
    items = (item for item in result.new_items if item.type == "message_output_item")
    return [sdk.ItemHelpers.text_message_output(item) for item in items]
