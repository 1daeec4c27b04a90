"""openai-python with the Responses API over a WebSocket."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from openai import AsyncOpenAI

from clients.libraries.job import KEY, City, Job

__all__ = ["OpenAIWebSocket"]

_ENDS = ("response.completed", "response.incomplete", "response.failed", "error")


class OpenAIWebSocket:
    def __init__(self, job: Job) -> None:
        self.job = job
        self.client = AsyncOpenAI(base_url=job.url, api_key=KEY)

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Any]:
        async with self.client.responses.connect() as connection:
            yield connection

    async def respond(self, connection: Any, given: Any, **fields: Any) -> Any:
        """One response, with its text in pieces."""
        await connection.response.create(model=self.job.model, input=given, **fields)
        async for event in connection:
            if event.type == "response.output_text.delta":
                self.job.piece(event.delta)
            elif event.type in _ENDS:
                assert event.type == "response.completed", event
                return event.response
        raise AssertionError("the connection has ended")

    async def text(self) -> None:
        async with self.connected() as connection:
            self.job.texts.append(_text(await self.respond(connection, self.job.prompt)))

    stream = text

    async def tool_loop(self) -> None:
        given: Any = self.job.prompt
        before: dict[str, Any] = {}
        async with self.connected() as connection:
            while True:
                response = await self.respond(connection, given, tools=self.job.functions(), **before)
                before = {"previous_response_id": response.id}
                given = [
                    {
                        "type": "function_call_output",
                        "call_id": item.call_id,
                        "output": self.job.call(item.name, **json.loads(item.arguments)),
                    }
                    for item in response.output
                    if item.type == "function_call"
                ]
                if not given:
                    break
        self.job.texts.append(_text(response))

    parallel_tools = tool_loop

    async def second_turn(self) -> None:
        before: dict[str, Any] = {}
        async with self.connected() as connection:
            for prompt in self.job.prompts:
                response = await self.respond(connection, prompt, **before)
                before = {"previous_response_id": response.id}
                self.job.texts.append(_text(response))

    async def thinking(self) -> None:
        async with self.connected() as connection:
            response = await self.respond(connection, self.job.prompt)
        [item] = [item for item in response.output if item.type == "reasoning"]
        self.job.thinking = "".join(part.text for part in item.summary)
        self.job.texts.append(_text(response))

    async def structured(self) -> None:
        form = {"type": "json_schema", "name": "City", "schema": City.model_json_schema()}
        async with self.connected() as connection:
            response = await self.respond(connection, self.job.prompt, text={"format": form})
        self.job.objects.append(City.model_validate_json(_text(response)))

    async def abort(self) -> None:
        async with self.connected() as connection:
            await connection.response.create(model=self.job.model, input=self.job.prompt)
            async for event in connection:
                if event.type == "response.output_text.delta" and self.job.begun(event.delta):
                    return


def _text(response: Any) -> str:
    parts = (part for item in response.output if item.type == "message" for part in item.content)
    return "".join(part.text for part in parts)
