"""A registry of agents that means ill, or that somebody has changed on its way."""

import json
from pathlib import Path

from dragoman.agents.catalogue import REFRESHED, asking_mode, catalogue, shipped


def test_a_registry_spares_no_question_and_takes_no_warning_away(tmp_path: Path) -> None:
    """What it says of how calls are recognised would have us answer for the person."""
    facts = {"builtIn": True, "recognisedBy": [{"title": "{tool}"}], "cautions": []}
    agents = [
        {"id": id_, "name": "x", "version": "99.0.0", "description": "", "_meta": {"dragoman": facts}}
        for id_ in (*shipped(), "new")
    ]
    (tmp_path / REFRESHED).write_text(json.dumps({"version": "1", "agents": agents}))
    known = catalogue(tmp_path)
    assert known["new"].version == "99.0.0"
    assert (known["new"].facts.recognised_by, known["new"].facts.built_in) == ((), False)
    assert any(ours.facts.cautions for ours in shipped().values())
    for id_, ours in shipped().items():
        assert known[id_].facts.recognised_by == ours.facts.recognised_by
        assert known[id_].facts.built_in == ours.facts.built_in
        assert set(ours.facts.cautions) <= set(known[id_].facts.cautions)


def test_a_registry_sets_no_mode(tmp_path: Path) -> None:
    """`dragoman agents add` writes the mode in which an agent asks; a registry could name one in which it does not."""
    facts = {"cautions": [{"text": "x", "unlessMode": "yolo"}]}
    agents = [
        {"id": id_, "name": "x", "version": "99.0.0", "description": "", "_meta": {"dragoman": facts}}
        for id_ in ("claude", "qwen", "new")
    ]
    (tmp_path / REFRESHED).write_text(json.dumps({"version": "1", "agents": agents}))
    assert all(
        caution.unless_mode == "yolo"
        for id_ in ("claude", "new")
        for caution in catalogue(tmp_path)[id_].facts.cautions
    )
    assert [asking_mode(id_) for id_ in ("claude", "qwen", "new")] == [None, "default", None]
