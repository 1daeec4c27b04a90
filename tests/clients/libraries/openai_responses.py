"""openai-python with the Responses API: synchronous, asynchronous, and its stream helper."""

from __future__ import annotations

import json
from typing import Any

from openai import AsyncOpenAI, OpenAI

from clients.libraries.job import KEY, City, Job

__all__ = ["OpenAIResponses"]


class OpenAIResponses:
    def __init__(self, job: Job) -> None:
        self.job = job
        self.client = OpenAI(base_url=job.url, api_key=KEY)
        self.later = AsyncOpenAI(base_url=job.url, api_key=KEY)

    async def text(self) -> None:
        response = self.client.responses.create(model=self.job.model, input=self.job.prompt)
        self.job.texts.append(response.output_text)

    async def stream(self) -> None:
        with self.client.responses.stream(model=self.job.model, input=self.job.prompt) as stream:
            for event in stream:
                if event.type == "response.output_text.delta":
                    self.job.piece(event.delta)
            self.job.texts.append(stream.get_final_response().output_text)

    async def tool_loop(self) -> None:
        items: list[Any] = [{"role": "user", "content": self.job.prompt}]
        tools: Any = self.job.functions()
        while True:
            response = self.client.responses.create(model=self.job.model, input=items, tools=tools)
            items += response.output
            calls = [item for item in response.output if item.type == "function_call"]
            if not calls:
                break
            items += [
                {
                    "type": "function_call_output",
                    "call_id": call.call_id,
                    "output": self.job.call(call.name, **json.loads(call.arguments)),
                }
                for call in calls
            ]
        self.job.texts.append(response.output_text)

    async def parallel_tools(self) -> None:
        given: Any = self.job.prompt
        before: Any = {}
        tools: Any = self.job.functions()
        while True:
            response = await self.later.responses.create(
                model=self.job.model, input=given, tools=tools, **before
            )
            calls = [item for item in response.output if item.type == "function_call"]
            if not calls:
                break
            before = {"previous_response_id": response.id}
            given = [
                {
                    "type": "function_call_output",
                    "call_id": call.call_id,
                    "output": self.job.call(call.name, **json.loads(call.arguments)),
                }
                for call in calls
            ]
        self.job.texts.append(response.output_text)

    async def second_turn(self) -> None:
        before: Any = {}
        for prompt in self.job.prompts:
            response = self.client.responses.create(model=self.job.model, input=prompt, **before)
            before = {"previous_response_id": response.id}
            self.job.texts.append(response.output_text)

    async def thinking(self) -> None:
        # As it streams, and as it is in the response.
        streamed = ""
        async with self.later.responses.stream(model=self.job.model, input=self.job.prompt) as stream:
            async for event in stream:
                if event.type == "response.reasoning_summary_text.delta":
                    streamed += event.delta
            response = await stream.get_final_response()
        [item] = [item for item in response.output if item.type == "reasoning"]
        self.job.thinking = "".join(part.text for part in item.summary)
        assert streamed == self.job.thinking, (streamed, item)
        self.job.texts.append(response.output_text)

    async def structured(self) -> None:
        whole, streamed = self.job.prompts
        parsed = self.client.responses.parse(model=self.job.model, input=whole, text_format=City)
        self.job.objects.append(parsed.output_parsed)
        stream = self.later.responses.stream(model=self.job.model, input=streamed, text_format=City)
        async with stream as events:
            self.job.objects.append((await events.get_final_response()).output_parsed)

    async def abort(self) -> None:
        async with self.later.responses.stream(model=self.job.model, input=self.job.prompt) as stream:
            async for event in stream:
                if event.type == "response.output_text.delta" and self.job.begun(event.delta):
                    return
