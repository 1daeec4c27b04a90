"""Pydantic AI, with the Responses API and with chat completions."""

from __future__ import annotations

from typing import Any

from pydantic_ai import Agent, NativeOutput, PromptedOutput, Tool, ToolOutput
from pydantic_ai.messages import PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta, ThinkingPart
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

from clients.libraries.job import KEY, TOOLS, City, Job

__all__ = ["PydanticChat", "PydanticResponses"]


class PydanticResponses:
    kind: Any = OpenAIResponsesModel

    def __init__(self, job: Job) -> None:
        self.job = job
        self.model = self.kind(job.model, provider=OpenAIProvider(base_url=job.url, api_key=KEY))

    def agent(self, **fields: Any) -> Any:
        return Agent(self.model, **fields)

    def tools(self) -> list[Any]:
        return [self._tool(name, words) for name, words in TOOLS.items()]

    def _tool(self, name: str, words: str) -> Any:
        def function(word: str) -> str:
            return self.job.call(name, word=word)

        return Tool(function, name=name, description=words)

    async def text(self) -> None:
        self.job.texts.append((await self.agent().run(self.job.prompt)).output)

    async def stream(self) -> None:
        async with self.agent().run_stream_events(self.job.prompt) as events:
            async for event in events:
                if (
                    isinstance(event, PartStartEvent)
                    and isinstance(event.part, TextPart)
                    and event.part.content
                ):
                    self.job.piece(event.part.content)
                elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
                    self.job.piece(event.delta.content_delta)
                elif event.event_kind == "agent_run_result":
                    parts = event.result.new_messages()[-1].parts
                    self.job.texts += [part.content for part in parts if isinstance(part, TextPart)]

    async def tool_loop(self) -> None:
        result = await self.agent(tools=self.tools()).run(self.job.prompt)
        self.job.texts.append(result.output)

    parallel_tools = tool_loop

    async def second_turn(self) -> None:
        history: Any = None
        for prompt in self.job.prompts:
            result = await self.agent().run(prompt, message_history=history)
            history = result.all_messages()
            self.job.texts.append(result.output)

    async def thinking(self) -> None:
        result = await self.agent().run(self.job.prompt)
        parts = result.new_messages()[-1].parts
        self.job.thinking = "".join(part.content for part in parts if isinstance(part, ThinkingPart))
        self.job.texts.append(result.output)

    async def structured(self) -> None:
        forms = (ToolOutput(City), NativeOutput(City), PromptedOutput(City))
        for prompt, form in zip(self.job.prompts, forms, strict=True):
            result = await self.agent(output_type=form).run(prompt)
            self.job.objects.append(result.output)

    async def abort(self) -> None:
        async with self.agent().run_stream(self.job.prompt) as result:
            async for delta in result.stream_text(delta=True, debounce_by=None):
                if self.job.begun(delta):
                    break


class PydanticChat(PydanticResponses):
    kind = OpenAIChatModel
