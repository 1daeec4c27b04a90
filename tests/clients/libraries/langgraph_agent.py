"""LangGraph: an agent of LangChain, which is a graph, with a checkpointer for its turns."""

from __future__ import annotations

import asyncio
from typing import Any

from langchain.agents import create_agent
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langgraph.checkpoint.memory import InMemorySaver

from clients.libraries.job import City
from clients.libraries.langchain_models import LangChainResponses

__all__ = ["LangGraph"]

_THREAD: Any = {"configurable": {"thread_id": "one"}}


class LangGraph(LangChainResponses):
    def graph(self, **fields: Any) -> Any:
        return create_agent(self.model, checkpointer=InMemorySaver(), **fields)

    def asked(self, prompt: str) -> dict[str, Any]:
        return {"messages": [{"role": "user", "content": prompt}]}

    async def text(self) -> None:
        state = await self.graph().ainvoke(self.asked(self.job.prompt), _THREAD)
        self.job.texts.append(state["messages"][-1].text)

    async def stream(self) -> None:
        graph = self.graph()
        async for chunk, _ in graph.astream(self.asked(self.job.prompt), _THREAD, stream_mode="messages"):
            if chunk.text:
                self.job.piece(chunk.text)
        self.job.texts.append(graph.get_state(_THREAD).values["messages"][-1].text)

    async def tool_loop(self) -> None:
        graph = self.graph(tools=list(self.tools().values()))
        state = await graph.ainvoke(self.asked(self.job.prompt), _THREAD)
        self.job.texts.append(state["messages"][-1].text)

    parallel_tools = tool_loop

    async def second_turn(self) -> None:
        graph = self.graph()
        for prompt in self.job.prompts:
            state = await graph.ainvoke(self.asked(prompt), _THREAD)
            self.job.texts.append(state["messages"][-1].text)

    async def thinking(self) -> None:
        state = await self.graph().ainvoke(self.asked(self.job.prompt), _THREAD)
        answer = state["messages"][-1]
        for block in answer.content_blocks:
            if block["type"] == "reasoning":
                self.job.thinking += block["reasoning"]
        self.job.texts.append(answer.text)

    async def structured(self) -> None:
        for prompt, form in zip(self.job.prompts, (ProviderStrategy(City), ToolStrategy(City)), strict=True):
            state = await self.graph(response_format=form).ainvoke(self.asked(prompt), _THREAD)
            self.job.objects.append(state["structured_response"])

    async def abort(self) -> None:
        async def read() -> None:
            stream = self.graph().astream(self.asked(self.job.prompt), _THREAD, stream_mode="messages")
            async for chunk, _ in stream:
                if self.job.begun(chunk.text):
                    begun.set()

        # To leave its stream is not enough: the graph runs beside it.
        begun = asyncio.Event()
        reading = asyncio.create_task(read())
        await begun.wait()
        reading.cancel()
        await asyncio.wait([reading])
