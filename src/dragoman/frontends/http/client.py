"""The client of a request: its key, and what it takes. Values in, values out."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from dragoman.config import ClientKey
from dragoman.lm import Features

__all__ = ["FEATURES", "HttpClient"]

# What both APIs can carry.
FEATURES = Features(
    thinking=True,
    keeps_parts_of_failures=True,
    unparsed_calls=True,
    reports=True,
    items=True,
    markdown=False,
)


@dataclass(frozen=True, slots=True)
class HttpClient:
    """The client of a request. `connection` is derived from its key, and never contains the key."""

    connection: str
    # None: the server has no keys.
    key: ClientKey | None = None
    # Which of its clients the request is from, if it is another server.
    client: str = ""
    # Passes on what it gets to a client that may not learn where the operator's files are.
    hides_paths: bool = False
    # How long its client waits while a person decides, if it says so.
    hold_seconds: float | None = None
    # Takes permission requests as items.
    approves_items: bool = False
    # Takes an agent's activities and plans as items, not as thinking.
    takes_activity: bool = False
    # Marks its requests as side requests.
    is_aside: bool = False
    # Its own name for this request, and whether it says that it sends it again.
    idempotency_key: str | None = None
    is_repeated: bool = False
    # The name that its program gives itself, for people to read.
    program: str = ""
    # The folder in which an agent is to work.
    workspace: str | None = None
    # Takes pictures as links in Markdown, not as items.
    links_files: bool = False
    # Takes every file as an item with its bytes.
    takes_files: bool = False
    # Takes items at all: chat completions have none.
    has_items: bool = True
    # The address by which it reached the server, without a path.
    origin: str = ""
    renders_markdown: bool = False
    # Says that no further request of its conversation follows.
    is_one_shot: bool = False
    # Headers that look like ours, and are none.
    unknown_headers: tuple[str, ...] = ()

    @property
    def key_name(self) -> str:
        return "" if self.key is None else self.key.name

    @property
    def features(self) -> Features:
        """What a model may report to it."""
        return msgspec.structs.replace(
            FEATURES,
            activity=self.takes_activity,
            approvals=self.approves_items,
            markdown=self.renders_markdown,
        )

    def allows(self, model_id: str) -> bool:
        return self.key is None or self.key.allows(model_id)

    @property
    def sees_paths(self) -> bool:
        """Whether it may learn where the operator's files are. Without keys, the client is on this machine."""
        return not self.hides_paths and (self.key is None or self.key.role == "admin")
