"""LiteLLM as a library, which speaks chat completions."""

from __future__ import annotations

import json
from typing import Any

import litellm

from clients.libraries.job import KEY, City, Job

__all__ = ["LiteLlm"]


class LiteLlm:
    def __init__(self, job: Job) -> None:
        self.job = job
        self.fields: dict[str, Any] = {"model": f"openai/{job.model}", "api_base": job.url, "api_key": KEY}

    async def complete(self, messages: list[Any], **fields: Any) -> Any:
        return await litellm.acompletion(messages=messages, **self.fields, **fields)

    async def text(self) -> None:
        answer = litellm.completion(messages=_asked(self.job.prompt), **self.fields)
        self.job.texts.append(answer.choices[0].message.content)

    async def stream(self) -> None:
        chunks = []
        async for chunk in await self.complete(_asked(self.job.prompt), stream=True):
            chunks.append(chunk)
            if chunk.choices and chunk.choices[0].delta.content:
                self.job.piece(chunk.choices[0].delta.content)
        self.job.texts.append(litellm.stream_chunk_builder(chunks).choices[0].message.content)

    async def tool_loop(self) -> None:
        messages = _asked(self.job.prompt)
        while True:
            answer = await self.complete(messages, tools=self.job.chat_functions())
            message = answer.choices[0].message
            messages.append(message)
            if not message.tool_calls:
                break
            for call in message.tool_calls:
                result = self.job.call(call.function.name, **json.loads(call.function.arguments))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
        self.job.texts.append(message.content)

    parallel_tools = tool_loop

    async def second_turn(self) -> None:
        messages: list[Any] = []
        for prompt in self.job.prompts:
            messages += _asked(prompt)
            answer = await self.complete(messages)
            messages.append(answer.choices[0].message)
            self.job.texts.append(answer.choices[0].message.content)

    async def thinking(self) -> None:
        message = (await self.complete(_asked(self.job.prompt))).choices[0].message
        self.job.thinking = message.reasoning_content
        self.job.texts.append(message.content)

    async def structured(self) -> None:
        answer = await self.complete(_asked(self.job.prompt), response_format=City)
        self.job.objects.append(City.model_validate_json(answer.choices[0].message.content))

    async def abort(self) -> None:
        stream = await self.complete(_asked(self.job.prompt), stream=True)
        async for chunk in stream:
            if self.job.begun(chunk.choices[0].delta.content or ""):
                break
        await stream.aclose()


def _asked(prompt: str) -> list[Any]:
    return [{"role": "user", "content": prompt}]
