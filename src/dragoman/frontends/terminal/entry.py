"""The entry points of the chat: chooses its form, and builds what that needs."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from prompt_toolkit.output import create_output
from rich.console import RenderableType
from rich.rule import Rule
from rich.style import Style
from rich.text import Text

from dragoman.clock import Clock, SystemClock
from dragoman.config import Config, ConfigError
from dragoman.frontends.terminal.attachments import Attachments, ModelTakes, attachments
from dragoman.frontends.terminal.chat import Chat, Interaction, Turns, live
from dragoman.frontends.terminal.choosing import choose_chat, confirmed
from dragoman.frontends.terminal.command_names import is_leaving
from dragoman.frontends.terminal.commands import Commands
from dragoman.frontends.terminal.confirm import Asker
from dragoman.frontends.terminal.host import NoConfirmer, TerminalHost
from dragoman.frontends.terminal.images import protocol_of
from dragoman.frontends.terminal.interrupts import Interrupts
from dragoman.frontends.terminal.keys import TerminalKeys, quiet
from dragoman.frontends.terminal.layout import note, place
from dragoman.frontends.terminal.lines import Answers, InputLines, JsonLines
from dragoman.frontends.terminal.plain import PlainTranscript
from dragoman.frontends.terminal.prompt import PromptInterrupted, PromptLine
from dragoman.frontends.terminal.replay import replay
from dragoman.frontends.terminal.rule_making import RuleMaker
from dragoman.frontends.terminal.screen import Screen, TerminalConsole
from dragoman.frontends.terminal.session import ChatSession
from dragoman.frontends.terminal.status import StatusPart, status_parts
from dragoman.frontends.terminal.stored_chats import (
    LAST_TIME,
    CannotResume,
    StoredChat,
    chats_in,
    chosen_by_id,
)
from dragoman.frontends.terminal.suspension import Suspension
from dragoman.frontends.terminal.transcript import Transcript
from dragoman.frontends.terminal.workspace_files import WorkspaceFiles
from dragoman.interruptible import run_interruptible
from dragoman.journal.store import JournalInfo
from dragoman.lm import LanguageModelError
from dragoman.logs import Redaction
from dragoman.store import StoreError
from dragoman.tools.builtin import builtin_tools
from dragoman.tools.decision import Confirmer
from dragoman.visible import visible_line

__all__ = ["ChatOptions", "NoPrompt", "interactive", "run_chat"]

# A prompt is read whole before it is sent; what is longer than this is a mistake.
_LONGEST_PROMPT = 4 * 1024 * 1024
# Once the prompt is drawn, and long before the user has typed anything.
_READY_SECONDS = 0.1
# So much of an id names a chat, as a rule.
_SHORT_ID = 4
_NO_TERMINAL = (
    "There is no terminal to type at, and no prompt on standard input. Start it in a terminal, or give a prompt: "
    "dragoman chat -p PROMPT"
)


class NoPrompt(Exception):
    """The prompt is empty."""


@dataclass(frozen=True, slots=True)
class ChatOptions:
    model: str
    config: Config
    # Where approvals and the history of prompts are stored.
    state_dir: Path
    # One prompt instead of a chat; `-` for what is on standard input.
    prompt: str | None = None
    json: bool = False
    workspace: tuple[Path, ...] = ()
    # The stored chat to continue, by its whole id.
    resume: str | None = None
    # Secrets, which are not stored.
    redaction: Redaction | None = None
    # Passes on each new configuration when a file changes, until it is cancelled.
    follow: Callable[[Callable[[Config], None]], Coroutine[object, object, None]] | None = None


def run_chat(options: ChatOptions) -> int:
    """Chat until the user leaves, or answer the one prompt. Returns the exit code.

    `LanguageModelError` if the model cannot be had, `NoPrompt` if the one prompt is empty, `CannotResume` if the chat to
    continue cannot be continued.
    """
    return run_interruptible(lambda: _run(options))


async def _run(options: ChatOptions) -> int:
    clock = SystemClock()
    prompt = _prompt(options)
    with ChatSession(
        options.config,
        options.model,
        state_dir=options.state_dir,
        workspace=options.workspace,
        tools=builtin_tools(),
        clock=clock,
        redaction=options.redaction,
    ) as session:
        for warning in session.warnings:
            print(f"dragoman: {warning}", file=sys.stderr)
        following = None if options.follow is None else asyncio.create_task(options.follow(session.adopt))
        try:
            said = await session.resume(options.resume, model=options.model) if options.resume else None
            if said is not None and options.config.journal.content == "metadata":
                print(f"dragoman: {LAST_TIME}", file=sys.stderr)
            if prompt is None:
                return await interactive(session, options.state_dir, clock, _greeting(session), said)
            return await (_as_json if options.json else _once)(session, prompt, clock)
        finally:
            if following is not None:
                following.cancel()
            await session.close()


async def interactive(
    session: ChatSession,
    state_dir: Path | None,
    clock: Clock,
    greeting: RenderableType,
    said: StoredChat | None = None,
) -> int:
    """A chat with the user at the terminal. It begins with what was said before."""
    screen = Screen(TerminalConsole(file=sys.stdout))
    transcript = _transcript(session, screen, clock)
    commands = Commands(
        session,
        toggle_thinking=transcript.toggle_thinking,
        folded=transcript.folded.whole,
        control=screen.control,
    )
    interrupts = Interrupts(clock)
    suspension = Suspension(screen)
    keys = TerminalKeys(suspend=suspension.suspend)
    turns = Turns(session, interrupts, suspension)
    line = PromptLine(
        screen,
        interrupts,
        state_dir=state_dir,
        suggest=commands.suggest,
        files=WorkspaceFiles(session.workspace[0]).matching if session.workspace else None,
        is_recalled=lambda prompt: not is_leaving(prompt),
        suspension=suspension,
        toolbar=partial(_toolbar, session),
        switch_mode=lambda: session.accept_edits(on=not session.accepts_edits),
    )
    # Where nothing is kept, no rule is either.
    rules = session.rule_maker if state_dir is not None else None
    accept_edits = partial(session.accept_edits, on=True)
    asker = _asker(screen, transcript, keys, clock, line, turns, rules, accept_edits)

    async def resume(wanted: str | None) -> None:
        await _resume(session, wanted, screen, transcript, keys)

    host = TerminalHost(transcript, asker)
    chat = Chat(
        screen,
        transcript,
        commands,
        line,
        turns,
        host,
        clock,
        Interaction(
            resume,
            keys.watching,
            lambda prompt: _attached(session, prompt),
            line.edit_next,
            lambda count: _reset_approvals(session, count, screen, keys),
        ),
    )
    with screen.instead_of_stderr():
        screen.print(greeting)
        if said is not None:
            replay(session.id, said, screen, transcript)
            screen.print()
        getting_ready = asyncio.get_running_loop().call_later(_READY_SECONDS, session.get_ready)
        try:
            code = await chat.talk()
        finally:
            getting_ready.cancel()
        if state_dir is not None and session.can_be_continued:
            last = f"Continue: dragoman chat -c, or --resume {session.id[:_SHORT_ID]}"
            screen.print(Text(last, Style(dim=True)))
        return code


def _attached(session: ChatSession, prompt: str) -> Attachments:
    if not session.workspace:
        return Attachments()
    info = session.model.info
    takes = ModelTakes(info.name, session.is_agent, info.capabilities.image_input)
    places = session.permissions.places(tuple(map(str, session.workspace)))
    return attachments(prompt, places, session.workspace[0], takes)


async def _resume(
    session: ChatSession, wanted: str | None, screen: Screen, transcript: Transcript, keys: TerminalKeys
) -> None:
    """`/resume`: go on with a stored chat, and show what was said in it."""
    try:
        chosen = await _chosen(session, wanted, screen, keys)
        if chosen is None:
            return
        said = await session.resume(chosen.id)
    except (CannotResume, LanguageModelError, ConfigError) as problem:
        sentence = problem.sentence if isinstance(problem, LanguageModelError) else str(problem)
        screen.print(note("✗", visible_line(sentence), Style(color="red")))
        return
    screen.print(Rule(style=Style(dim=True)))
    if not session.can_be_continued:
        screen.print(note("⊘", LAST_TIME, Style(color="yellow")))
    replay(session.id, said, screen, transcript)


async def _reset_approvals(session: ChatSession, count: int, screen: Screen, keys: TerminalKeys) -> None:
    """`/approvals reset`: take back all approvals, if the user says so."""
    what = "1 approval" if count == 1 else f"{count} approvals"
    if not await confirmed(f"Take back {what}, here and in every other folder?", screen, keys):
        screen.print(note("○", "Nothing was taken back."))
        return
    try:
        session.approvals.reset()
    except StoreError as problem:
        screen.print(note("✗", visible_line(str(problem)), Style(color="red")))
        return
    screen.print(note("○", "All approvals are taken back, here and everywhere."))


async def _chosen(
    session: ChatSession, wanted: str | None, screen: Screen, keys: TerminalKeys
) -> JournalInfo | None:
    chats = await session.chats()
    if wanted is not None:
        return chosen_by_id(session.workspace, chats, wanted)
    others = [each for each in chats_in(session.workspace, chats) if each.id != session.id]
    if not others:
        raise CannotResume("There is no other chat of this folder to go on with.")
    try:
        return await choose_chat(await session.kept(others), screen, keys)
    except PromptInterrupted:
        return None


async def _once(session: ChatSession, prompt: str, clock: Clock) -> int:
    """One prompt: laid out where output is a terminal, else the bare text, with all else on standard error."""
    is_laid_out = sys.stdout.isatty()
    file = sys.stdout if is_laid_out else sys.stderr
    screen = Screen(TerminalConsole(file=file))
    transcript = _transcript(session, screen, clock, alone=True)
    interrupts = Interrupts(clock)
    suspension = Suspension(screen)
    turns = Turns(session, interrupts, suspension)
    confirmer: Confirmer = NoConfirmer()
    if sys.stdin.isatty() and file.isatty():
        line = PromptLine(screen, interrupts, suspension=suspension, output=create_output(stdout=file))
        keys = TerminalKeys(suspend=suspension.suspend)
        confirmer = _asker(screen, transcript, keys, clock, line, turns)
    host = TerminalHost(transcript if is_laid_out else PlainTranscript(sys.stdout, transcript), confirmer)
    with screen.instead_of_stderr(), quiet():
        async with live(transcript, screen, clock):
            return await turns.run_alone(prompt, host)


async def _as_json(session: ChatSession, prompt: str, clock: Clock) -> int:
    host = TerminalHost(JsonLines(sys.stdout), Answers(InputLines(sys.stdin.fileno()), sys.stderr))
    return await Turns(session, Interrupts(clock)).run_alone(prompt, host)


def _transcript(session: ChatSession, screen: Screen, clock: Clock, *, alone: bool = False) -> Transcript:
    return Transcript(
        screen,
        clock,
        model=partial(_waited_for, session),
        pictures=protocol_of(os.environ),
        alone=alone,
    )


def _asker(
    screen: Screen,
    transcript: Transcript,
    keys: TerminalKeys,
    clock: Clock,
    line: PromptLine,
    turns: Turns,
    rules: RuleMaker | None = None,
    accept_edits: Callable[[], None] | None = None,
) -> Asker:
    return Asker(
        screen,
        transcript,
        keys,
        clock,
        read_reason=line.read_reason,
        interrupt=turns.interrupt,
        rules=rules,
        accept_edits=accept_edits,
    )


def _toolbar(session: ChatSession, width: int) -> Sequence[StatusPart]:
    shown = ", ".join(map(place, session.workspace)) or "no workspace"
    return status_parts(
        width,
        model=visible_line(session.model.info.name),
        folder=visible_line(shown),
        usage=session.usage,
        accepts_edits=session.accepts_edits,
    )


def _waited_for(session: ChatSession) -> str:
    mode = " · accepting edits" if session.accepts_edits else ""
    return f"{session.model.info.name}{mode}"


def _greeting(session: ChatSession) -> RenderableType:
    line = Text.assemble(
        ("dragoman", Style(bold=True)), (f" · {visible_line(session.model.info.name)}\n", Style(color="cyan"))
    )
    return line.append(
        "Enter sends, Alt-Enter begins a new line, Esc stops, /help shows more.\n", Style(dim=True)
    )


def _prompt(options: ChatOptions) -> str | None:
    """The single prompt of the command line or standard input; None for a chat at the terminal."""
    if options.prompt is None and not options.json and sys.stdin.isatty():
        return None
    match options.prompt:
        case None:
            prompt, why_not = _read_prompt(), _NO_TERMINAL
        case "-":
            prompt, why_not = _read_prompt(), "The prompt on standard input is empty."
        case prompt:
            why_not = "The prompt is empty."
    if not prompt.strip():
        raise NoPrompt(why_not)
    return prompt


def _read_prompt() -> str:
    data = sys.stdin.buffer.read(_LONGEST_PROMPT + 1)
    if len(data) > _LONGEST_PROMPT:
        raise LanguageModelError(
            "bad_request",
            f"The prompt on standard input is longer than {_LONGEST_PROMPT:,} bytes.",
            hint="Put it into a file, and ask about the file.",
        )
    return data.decode("utf-8", "replace")
