"""Answers prompts that ask for functions of the consumer, or for an answer in a form.

It stands between the prompts that need code (`acts`) and the script: what the script has calls for stays the script's.
As with a script, an answer depends on the history alone.
"""

from __future__ import annotations

import re
from dataclasses import replace

from dragoman.backends.scripted import Script, ScriptedReply, ScriptStep, reply, say, think
from dragoman.backends.scripted.scene import Scene, choose
from dragoman.backends.scripted.script import Call
from dragoman.demo.agent import acts, functions
from dragoman.demo.agent.casting import ROLE
from dragoman.demo.agent.demands import PromptDemands, read_demands
from dragoman.demo.agent.facts import PromptFacts
from dragoman.demo.agent.filling import fill
from dragoman.lm import JsonObject, Request
from dragoman.lm.json import encode_text

__all__ = ["reply_to"]

_THINK = re.compile(r"\bthink\b", re.IGNORECASE)
# Calls for which the script takes a tool that sounds like it, if the words do not say it better.
_ROLES = (f"{ROLE}read", f"{ROLE}search")
_GREETING = "I am the demo agent: a script, not a model."


def reply_to(request: Request, shown: Request, script: Script) -> ScriptedReply | None:
    """The answer to a prompt that asks for a function or a form; None if it asks for neither.

    `shown` is the request as the script sees it.
    """
    demands = read_demands(request)
    scene = Scene.of(shown)
    if "denied" in scene.outcomes or scene.round < acts.count_of_wishes(demands.spoken):
        return None
    steps = (
        _calls(request, demands, scene, script)
        if scene.round == 0
        else _next(request, demands, scene, script)
    )
    if not steps:
        return None
    thoughts = [think("They want to see me think, so I say what I do first. Then I do it.")]
    return reply(*(thoughts if scene.round == 0 and _THINK.search(demands.words) else []), *steps)


def _calls(request: Request, demands: PromptDemands, scene: Scene, script: Script) -> list[ScriptStep]:
    """Calls for what the prompt asks for, or the answer in its form."""
    offered = request.options.tools
    wishes = functions.by_name(demands, offered)
    if not wishes and demands.must_call:
        wishes = functions.required(demands, request.messages, offered)
    if not wishes:
        scripted = choose(script.replies, scene)
        asked = [] if acts.is_about_itself(demands.words) else functions.asked_for(demands.words, offered)
        if _may_be_replaced(scripted, certainly=bool(asked) and all(wish.is_certain for wish in asked)):
            wishes = asked
        elif _calls_something(scripted):
            return []
    return [wish.step for wish in wishes] or _in_form(request, demands)


def _next(request: Request, demands: PromptDemands, scene: Scene, script: Script) -> list[ScriptStep]:
    """What follows when calls are back: the last call, the answer in its form, or what was returned."""
    if _calls_something(choose(script.replies, scene)):
        return []
    if functions.awaits_final(demands, request.messages, request.options.tools):
        return [wish.step for wish in functions.required(demands, request.messages, request.options.tools)]
    if demands.form is not None:
        return _in_form(request, demands)
    first = replace(scene, round=0, results=(), outcomes=frozenset(), called=frozenset())
    if _calls_something(choose(script.replies, first)) or acts.count_of_wishes(demands.spoken):
        # The calls were the script's, or those of an act.
        return []
    return functions.report(request.messages)


def _may_be_replaced(scripted: ScriptedReply | None, *, certainly: bool) -> bool:
    """Whether functions that are asked for come before the script's answer: always before one that is for every prompt."""
    if scripted is None or scripted.when is None or scripted.when.prompt is None:
        return not _calls_something(scripted)
    calls = [step.call for step in scripted.steps if isinstance(step, Call)]
    return certainly and all(name in _ROLES for name in calls)


def _calls_something(chosen: ScriptedReply | None) -> bool:
    return chosen is not None and any(isinstance(step, Call) for step in chosen.steps)


def _in_form(request: Request, demands: PromptDemands) -> list[ScriptStep]:
    form = demands.form
    if form is None:
        return []
    known = functions.known_from(request.messages[demands.at :])
    value = (
        _anything(demands, known)
        if _is_open(form)
        else fill(form, PromptFacts(demands.words, known), generous=True)
    )
    return [say(str(acts.literal(encode_text(value))))]


def _is_open(form: JsonObject) -> bool:
    """Whether any object will do."""
    return (
        form.get("type") == "object"
        and not set(form) - {"type", "description", "title", "additionalProperties"}
        and (form.get("additionalProperties") is not False)
    )


def _anything(demands: PromptDemands, known: JsonObject) -> JsonObject:
    return {"answer": _GREETING, "prompt": demands.words[:200], **known}
