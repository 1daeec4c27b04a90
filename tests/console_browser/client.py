"""The `openai` client, as a program: python client.py responses|chat ADDRESS MODEL [--stream]. The input is on stdin.

It prints the text of the answer.
"""

from __future__ import annotations

import sys

from openai import OpenAI

__all__: list[str] = []

_SECONDS = 60.0


def main() -> None:
    api, address, model, *more = sys.argv[1:]
    client = OpenAI(base_url=address, api_key="unused", max_retries=0, timeout=_SECONDS)
    text = sys.stdin.read()
    answer = (_responses if api == "responses" else _chat)(client, model, text, streams=bool(more))
    sys.stdout.write(answer)


def _responses(client: OpenAI, model: str, text: str, *, streams: bool) -> str:
    if not streams:
        return client.responses.create(model=model, input=text).output_text
    with client.responses.stream(model=model, input=text) as stream:
        stream.until_done()
        return stream.get_final_response().output_text


def _chat(client: OpenAI, model: str, text: str, *, streams: bool) -> str:
    if not streams:
        made = client.chat.completions.create(model=model, messages=[{"role": "user", "content": text}])
        return made.choices[0].message.content or ""
    parts = client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": text}], stream=True
    )
    return "".join(part.choices[0].delta.content or "" for part in parts if part.choices)


if __name__ == "__main__":
    main()
