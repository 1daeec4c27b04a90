"""By hand: `make model-server`, then point an agent at it."""

from __future__ import annotations

import argparse
import asyncio
from contextlib import suppress

from model_server.asked import Ask
from model_server.running import model_server

_HELP = """A scripted model at {url} (chat completions, Responses and Anthropic messages under /v1, Gemini's under /v1beta).

  Claude     ANTHROPIC_BASE_URL={url} ANTHROPIC_API_KEY=any
  Gemini     GOOGLE_GEMINI_BASE_URL={url} GEMINI_API_KEY=any
  others     an OpenAI-compatible provider with the base address {url}/v1

Say in a prompt what the model is to do, for example
  [[say Let me see.; run ls]] [[say I saw {{results}}]]
  [[call look_up word=one]] [[say Done.]]
  [[say Slowly; wait here; say on]]        and then: curl -X POST {url}/gates/here
"""


def _tell(ask: Ask) -> None:
    reply = ask.reply
    if reply is None:
        return
    calls = ", ".join(f"{call.tool.name}({call.input})" for call in reply.calls)
    print(
        f"{ask.dialect}: {len(ask.tools)} tools, round {ask.rounds} → {reply.status or reply.text!r} {calls}"
    )


async def _serve(port: int) -> None:
    async with model_server(port, _tell) as server:
        print(_HELP.format(url=server.url), flush=True)
        await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="model_server", description=__doc__)
    parser.add_argument("--port", type=int, default=8428)
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve(parser.parse_args().port))


if __name__ == "__main__":
    main()
