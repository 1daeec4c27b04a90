"""Checks across the fields of a file whose values are each valid."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from dragoman.config.problem import Complaint, dotted, quoted
from dragoman.config.rule_contradictions import rule_contradictions
from dragoman.config.schema import AcpModel, FleetModel, Tables
from dragoman.loopback import is_loopback
from dragoman.nearest import nearest

__all__ = ["contradictions"]


def contradictions(
    tables: Tables, agents: Collection[str] = (), builtin: Collection[str] = ()
) -> Iterator[Complaint]:
    """Settings that contradict each other.

    `agents` are the known ids beyond the catalogue that came with us, and `builtin` the models that exist without a file.
    """
    for id_, model in tables.models.items():
        if isinstance(model, AcpModel) and model.agent is None and model.command is None:
            yield (
                ("models", id_),
                f'[{dotted(("models", id_))}] has neither "agent" nor "command". Add the one that starts it.',
            )
        if isinstance(model, AcpModel) and model.agent is not None and model.agent not in agents:
            yield from _unknown_agent(id_, model.agent)
    yield from _fleet(tables)
    yield from _unusable_patterns(tables.tools.urls)
    yield from rule_contradictions(tables.policy)
    if not (tables.serve.api_keys or tables.keys or is_loopback(tables.serve.host)):
        yield (
            ("serve", "host"),
            f'"host" in [serve]: with {quoted(tables.serve.host)} other machines can connect, so add "api_keys", or [keys.NAME].',
        )
    if not tables.fleet.urls:
        # The models of a fleet's workers are models here, too, and nobody knows them yet.
        yield from _unknown_models(tables, (*tables.models, *builtin))
    if tables.console.webhook is not None and tables.console.webhook_secret is None:
        yield (
            ("console", "webhook"),
            '"webhook" in [console] needs "webhook_secret", with which the messages are signed.',
        )


def _fleet(tables: Tables) -> Iterator[Complaint]:
    fleet = tables.fleet
    if not fleet.urls:
        for id_, model in tables.models.items():
            if isinstance(model, FleetModel):
                # About [fleet], which counts only in the user's own file: a found file's models use that fleet.
                yield (
                    ("fleet", "url"),
                    f'[{dotted(("models", id_))}] is a model of a fleet, and there is none. Add [fleet] with its "url".',
                )
        for key in ("credentials", "tls_ca", "name", "labels", "shared"):
            if getattr(fleet, key):
                yield ("fleet", key), f'"{key}" in [fleet] needs "url": without it there is no fleet.'
    if fleet.tls_ca is not None and any(url.startswith("nats:") for url in fleet.urls):
        yield (
            ("fleet", "tls_ca"),
            '"tls_ca" in [fleet] is for TLS, and a nats:// address does not ask for that. Write tls:// in "url".',
        )


def _unknown_models(tables: Tables, known: Collection[str]) -> Iterator[Complaint]:
    for name, key in tables.keys.items():
        for number, model in enumerate(key.models or ()):
            if model not in known:
                keys = ("keys", name, "models", number)
                yield keys, f'"models" in [{dotted(keys[:2])}]: {_no_model(model, known)}'
    if tables.chat.model is not None and tables.chat.model not in known:
        yield ("chat", "model"), f'"model" in [chat]: {_no_model(tables.chat.model, known)}'


def _no_model(model: str, known: Collection[str]) -> str:
    meant = nearest(model, known)
    hint = f"Did you mean {quoted(meant)}?" if meant else f"There are {', '.join(dict.fromkeys(known))}."
    return f"there is no model {quoted(model)}. {hint}"


def _unknown_agent(model_id: str, agent: str) -> Iterator[Complaint]:
    from dragoman.agents.catalogue import shipped  # noqa: PLC0415 - reads a file, for those who name an agent

    known = shipped()
    if agent not in known:
        meant = nearest(agent, known)
        hint = (
            f"Did you mean {quoted(meant)}?"
            if meant
            else f'There are {", ".join(known)}; for any other agent leave "agent" out and give its "command".'
        )
        keys = ("models", model_id, "agent")
        yield keys, f'"agent" in [{dotted(keys[:-1])}]: {quoted(agent)} is not in the catalogue. {hint}'


def _unusable_patterns(patterns: Iterable[str]) -> Iterator[Complaint]:
    if not patterns:
        return
    from dragoman.permissions.urls import UrlPattern, UrlPatternError  # noqa: PLC0415 - with it come all the tools

    for pattern in patterns:
        try:
            UrlPattern.parse(pattern)
        except UrlPatternError as error:
            yield ("tools", "urls", pattern), f"{quoted(pattern)} in [tools.urls]: {error}"
