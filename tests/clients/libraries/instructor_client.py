"""Instructor, which asks for objects only."""

from __future__ import annotations

from typing import Any

import instructor
from openai import OpenAI

from clients.libraries.job import KEY, City, Job

__all__ = ["Instructor"]


class Instructor:
    def __init__(self, job: Job) -> None:
        self.job = job

    def client(self, mode: Any = instructor.Mode.TOOLS) -> Any:
        return instructor.from_openai(OpenAI(base_url=self.job.url, api_key=KEY), mode=mode)

    async def structured(self) -> None:
        # Its default, which is a function that must be called, and a JSON schema.
        modes = (instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA)
        for prompt, mode in zip(self.job.prompts, modes, strict=True):
            messages = [{"role": "user", "content": prompt}]
            made = self.client(mode).chat.completions.create(
                model=self.job.model, messages=messages, response_model=City, max_retries=0
            )
            self.job.objects.append(made.model_dump())
