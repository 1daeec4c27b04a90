"""Everything here that reads what others wrote, each as a check of bytes.

A check raises when a reader does what it never should: fail in a way that nobody expects, read the same bytes in two ways,
or give out more than was put in. What a reader refuses in its own words is fine. The checks know nothing of who chooses the
bytes: Hypothesis does in the tests, and a fuzzer that watches the coverage in `make fuzz`.
"""

from __future__ import annotations

from contextlib import nullcontext

from fuzz import commands, database, files, provider, screen, servers, talk
from fuzz.check import Check, Target

__all__ = ["TARGETS"]


def _alone(check: Check) -> Target:
    return lambda: nullcontext(check)


TARGETS: dict[str, Target] = {
    **{
        check.__name__: _alone(check)
        for check in (
            commands.command_lines,
            talk.jsonrpc_lines,
            talk.mcp_lines,
            talk.acp_messages,
            talk.shown_changes,
            talk.editor_requests,
            provider.server_sent_events,
            provider.response_events,
            provider.endpoint_bodies,
            provider.retry_after,
            files.configuration_edits,
            files.when_clauses,
            files.declarations,
            files.tool_inputs,
            files.globs,
            files.scripts,
            files.traces,
            files.recorded_messages,
            files.saved_runs,
            files.markers,
            database.stored_events,
            screen.addresses,
            screen.agents_words,
            screen.streamed_markdown,
            screen.composed_text,
            screen.log_lines,
            screen.web_pages,
            servers.compactions,
        )
    },
    **{
        target.__name__: target
        for target in (
            talk.file_requests,
            talk.editor_lines,
            files.configuration,
            files.registries,
            files.archives,
            files.kept_files,
            database.stored_conversations,
            database.stored_journals,
            database.stored_rows,
            servers.http_requests,
            servers.websocket_turns,
            servers.tool_server_bodies,
            servers.tool_server_requests,
        )
    },
}
