"""LangChain's `ChatOpenAI`, with the Responses API and with chat completions."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI

from clients.libraries.job import KEY, TOOLS, City, Job

__all__ = ["LangChainChat", "LangChainResponses"]


class LangChainResponses:
    responses = True

    def __init__(self, job: Job) -> None:
        self.job = job
        self.model: Any = ChatOpenAI(
            base_url=job.url, api_key=KEY, model=job.model, use_responses_api=self.responses
        )

    def tools(self) -> dict[str, Any]:
        return {name: self._tool(name, words) for name, words in TOOLS.items()}

    def _tool(self, name: str, words: str) -> Any:
        def function(word: str) -> str:
            return self.job.call(name, word=word)

        return StructuredTool.from_function(function, name=name, description=words)

    async def text(self) -> None:
        self.job.texts.append(self.model.invoke(self.job.prompt).text)

    async def stream(self) -> None:
        whole: Any = None
        async for chunk in self.model.astream(self.job.prompt):
            if chunk.text:
                self.job.piece(chunk.text)
            whole = chunk if whole is None else whole + chunk
        self.job.texts.append(whole.text)

    async def tool_loop(self) -> None:
        tools = self.tools()
        model = self.model.bind_tools(list(tools.values()))
        messages: list[Any] = [HumanMessage(self.job.prompt)]
        while True:
            answer: AIMessage = await model.ainvoke(messages)
            messages.append(answer)
            if not answer.tool_calls:
                break
            messages += [
                ToolMessage(tools[call["name"]].invoke(call["args"]), tool_call_id=call["id"])
                for call in answer.tool_calls
            ]
        self.job.texts.append(answer.text)

    parallel_tools = tool_loop

    async def second_turn(self) -> None:
        messages: list[Any] = []
        for prompt in self.job.prompts:
            messages.append(HumanMessage(prompt))
            messages.append(self.model.invoke(messages))
            self.job.texts.append(messages[-1].text)

    async def thinking(self) -> None:
        answer = await self.model.ainvoke(self.job.prompt)
        for block in answer.content_blocks:
            if block["type"] == "reasoning":
                self.job.thinking += block["reasoning"]
        self.job.texts.append(answer.text)

    async def structured(self) -> None:
        # Its default, which is a JSON schema, and a function that must be called.
        said, called = self.job.prompts
        self.job.objects.append(self.model.with_structured_output(City).invoke(said))
        by_function = self.model.with_structured_output(City, method="function_calling")
        self.job.objects.append(await by_function.ainvoke(called))

    async def abort(self) -> None:
        stream = self.model.astream(self.job.prompt)
        async for chunk in stream:
            if self.job.begun(chunk.text):
                break
        await stream.aclose()


class LangChainChat(LangChainResponses):
    responses = False
