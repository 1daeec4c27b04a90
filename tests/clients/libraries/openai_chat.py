"""openai-python with chat completions."""

from __future__ import annotations

from typing import Any

from openai import AsyncOpenAI, OpenAI

from clients.libraries.job import KEY, City, Job

__all__ = ["OpenAIChat"]


class OpenAIChat:
    def __init__(self, job: Job) -> None:
        self.job = job
        self.chat = OpenAI(base_url=job.url, api_key=KEY).chat.completions
        self.later = AsyncOpenAI(base_url=job.url, api_key=KEY).chat.completions

    async def text(self) -> None:
        messages: Any = [{"role": "user", "content": self.job.prompt}]
        completion = self.chat.create(model=self.job.model, messages=messages)
        self.job.texts.append(completion.choices[0].message.content or "")

    async def stream(self) -> None:
        messages: Any = [{"role": "user", "content": self.job.prompt}]
        with self.chat.stream(model=self.job.model, messages=messages) as stream:
            for event in stream:
                if event.type == "content.delta":
                    self.job.piece(event.delta)
            self.job.texts.append(stream.get_final_completion().choices[0].message.content or "")

    async def tool_loop(self) -> None:
        messages: list[Any] = [{"role": "user", "content": self.job.prompt}]
        tools: Any = self.job.chat_functions()
        for tool in tools:
            tool["function"]["strict"] = True
            tool["function"]["parameters"]["additionalProperties"] = False
        while True:
            with self.chat.stream(model=self.job.model, messages=messages, tools=tools) as stream:
                message = stream.get_final_completion().choices[0].message
            if not message.tool_calls:
                break
            messages.append(message)
            for call in message.tool_calls:
                arguments: Any = call.function.parsed_arguments
                answer = self.job.call(call.function.name, **arguments)
                messages.append({"role": "tool", "tool_call_id": call.id, "content": answer})
        self.job.texts.append(message.content or "")

    parallel_tools = tool_loop

    async def second_turn(self) -> None:
        messages: list[Any] = []
        for prompt in self.job.prompts:
            messages.append({"role": "user", "content": prompt})
            completion = await self.later.create(model=self.job.model, messages=messages)
            messages.append(completion.choices[0].message)
            self.job.texts.append(completion.choices[0].message.content or "")

    async def thinking(self) -> None:
        # A field that servers with thinking have, and OpenAI's own has not.
        messages: Any = [{"role": "user", "content": self.job.prompt}]
        completion = await self.later.create(model=self.job.model, messages=messages)
        message: Any = completion.choices[0].message
        self.job.thinking = message.reasoning_content
        self.job.texts.append(message.content)

    async def structured(self) -> None:
        whole, named = self.job.prompts
        messages: Any = [{"role": "user", "content": whole}]
        parsed = self.chat.parse(model=self.job.model, messages=messages, response_format=City)
        self.job.objects.append(parsed.choices[0].message.parsed)
        # A function that must be called, by its name.
        messages = [{"role": "user", "content": named}]
        tool: Any = {"type": "function", "function": {"name": "City", "parameters": City.model_json_schema()}}
        choice: Any = {"type": "function", "function": {"name": "City"}}
        called = await self.later.create(
            model=self.job.model, messages=messages, tools=[tool], tool_choice=choice
        )
        [call] = called.choices[0].message.tool_calls or []
        assert call.type == "function"
        self.job.objects.append(City.model_validate_json(call.function.arguments))

    async def abort(self) -> None:
        messages: Any = [{"role": "user", "content": self.job.prompt}]
        async with self.later.stream(model=self.job.model, messages=messages) as stream:
            async for event in stream:
                if event.type == "content.delta" and self.job.begun(event.delta):
                    return
