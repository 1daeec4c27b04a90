"""A rule as it stands in `dragoman.toml`, and where it stands.

This module is imported for every configuration. The analysis of commands is imported only if there are rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias, TypeVar

import msgspec

__all__ = ["ActionKind", "LocatedRule", "PolicyRule", "as_texts"]

ActionKind: TypeAlias = Literal["read", "edit", "delete", "execute", "fetch", "tool", "other"]

_AnyText = TypeVar("_AnyText", bound=str)
_Text: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]
_Texts: TypeAlias = Annotated[tuple[_Text, ...], msgspec.Meta(min_length=1)]
_Words: TypeAlias = Annotated[tuple[_Text | _Texts, ...], msgspec.Meta(min_length=1)]


class PolicyRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One `[[policy]]` table. All conditions that it names must hold."""

    decision: Literal["allow", "ask", "deny"]
    kind: ActionKind | Annotated[tuple[ActionKind, ...], msgspec.Meta(min_length=1)] | None = None
    # A model's id, or several.
    agent: _Text | _Texts | None = None
    # Folders: the rule holds in workspaces that are one of them or lie below one.
    workspace: _Text | _Texts | None = None
    # The words of a command. An element may be a list of alternatives.
    command: _Words | None = None
    # "any": more arguments may follow. Left out: exactly this command, and the options in `options`.
    args: Literal["any"] | None = None
    # Patterns of arguments that must not be there.
    without: _Texts | None = None
    # The only options that may be there.
    options: tuple[_Text, ...] | None = None
    # Names of variables that may be set for the command.
    variables: _Texts | None = None
    # Files that the command's input and output may be redirected from and to: globs as in `paths`.
    redirects: _Texts | None = None
    # Whether arguments may be what the shell computes: variables, substitutions, what xargs adds.
    expands: bool = False
    # Globs, relative to the workspace. Of a command: all its arguments.
    paths: _Texts | None = None
    # Patterns of addresses, as in [tools.urls].
    urls: _Texts | None = None
    # Patterns of tools' names.
    tools: _Texts | None = None
    # allow: also sensitive actions. ask, deny: only sensitive actions.
    sensitive: bool = False
    # Shown to the person and to the agent.
    reason: _Text | None = None
    # What the rule must match, and what it must not match: checked when the file is loaded.
    examples: tuple[_Text, ...] = ()
    counterexamples: tuple[_Text, ...] = ()


@dataclass(frozen=True, slots=True)
class LocatedRule:
    """A rule and where it stands."""

    rule: PolicyRule
    file: str
    line: int


def as_texts(value: _AnyText | tuple[_AnyText, ...] | None) -> tuple[_AnyText, ...]:
    """The texts of a field that holds one, several or none."""
    return (value,) if isinstance(value, str) else value or ()
