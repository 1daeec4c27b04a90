"""The harness computes what it says, and a figure can be measured."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from bench.__main__ import lost_rows
from bench.calls import CALL, RESULT, TEXT, Calls, counted
from bench.contestants import FLOOR, LITELLM, OURS
from bench.document import BEGIN, END, written
from bench.figures import Column, Figure, Goal, Row, percentile, ratio
from bench.fleet import MANY, streams_case
from bench.fleet_nodes import FLEET
from bench.fleet_scale import BIDDERS, LISTED, STORED, TURN, WRITTEN, bids_case, statuses_case
from bench.load import Heard
from bench.machine import Surroundings
from bench.plot import drawn
from bench.scale_page import calculated
from bench.stage import LEFT_OUT
from bench.table import markdown_of, text_of

from dragoman.lm.surrogates import mended

_ROOT = Path(__file__).parents[2]
_WHERE = Surroundings("2026-01-02", "a processor", 2, 8, "Linux 6", "3.11.7", 0.1, {"dragoman": "0"})
_FIGURE = Figure(
    "streaming",
    "CPU per streamed part",
    (Column("cpu", "CPU µs/part"),),
    (
        Row("stdio", OURS, {"cpu": (12.0, 10.0, 50.0)}),
        Row("stdio", FLOOR, {"cpu": (4.0, 5.0, 5.0)}),
        Row("stdio", "gone", note="not measured: there is none"),
    ),
    (Goal("of the floor's", 3.0, 2.5),),
)


def test_a_value_is_the_median_of_its_repeats() -> None:
    assert _FIGURE.rows[0].median("cpu") == 12.0
    assert _FIGURE.rows[2].median("cpu") is None


def test_a_ratio_is_the_median_over_repeats_of_both() -> None:
    # 3, 2 and 10 times as much: in the last repeat something else was running.
    assert _FIGURE.ratio("cpu", "stdio", OURS, FLOOR) == 3.0
    assert ratio((10.0, 20.0), (5.0,)) == 3.0
    assert ratio((), (5.0,)) is None
    assert _FIGURE.ratio("cpu", "stdio", OURS, "gone") is None


@pytest.mark.parametrize(
    ("goal", "verdict"),
    [
        (Goal("", 2.5, 2.5), "reached"),
        (Goal("", 2.6, 2.5), "not reached"),
        (Goal("", 2.6, 2.5, "at least"), "reached"),
        (Goal("", 2.4, 2.5, "at least"), "not reached"),
        (Goal("", None, 2.5), "not measured"),
    ],
)
def test_a_goal_has_a_verdict(goal: Goal, verdict: str) -> None:
    assert goal.verdict == verdict


def test_what_needs_nothing_installed_must_be_measured() -> None:
    columns = (Column("cpu", "CPU"),)
    rows = (
        Row("stdio", OURS, {"cpu": (1.0,)}),
        Row("http", OURS, {"cpu": (1.0,)}, "not measured: it ended"),
        Row("http", FLOOR, {"cpu": ()}),
        Row("http", FLOOR, note=LEFT_OUT),
        Row("http", LITELLM, note="not measured: it is not installed"),
    )
    assert lost_rows([Figure("streaming", "CPU", columns, rows)]) == [
        "streaming, http, dragoman: not measured: it ended",
        "streaming, http, floor: no values",
    ]


def test_percentiles() -> None:
    values = [float(value) for value in range(100, 0, -1)]
    assert (percentile(values, 0.5), percentile(values, 0.99), percentile([3.0], 0.5)) == (50.0, 99.0, 3.0)
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)


def test_a_table_tells_values_verdicts_and_why_a_row_has_none() -> None:
    told = text_of(_FIGURE)
    assert re.search(r"stdio +dragoman +12\.0", told)
    assert re.search(r"stdio +gone +not measured: there is none", told)
    assert "✗ of the floor's: 3.00 × (at most 2.50)" in told
    assert "| stdio | **dragoman** | 12.0 |" in markdown_of(_FIGURE)


def test_only_what_stands_between_the_markers_is_written_anew() -> None:
    document = f"# Before\n{BEGIN}\nold\n{END}\nAfter\n"
    again = written(written(document, (_FIGURE,), _WHERE), (_FIGURE,), _WHERE)
    assert again.startswith(f"# Before\n{BEGIN}\n")
    assert again.endswith(f"{END}\nAfter\n")
    assert again.count("CPU per streamed part") == 1
    assert "old" not in again
    with pytest.raises(ValueError, match="no place"):
        written("# Before\n", (), _WHERE)


def test_the_plot_has_a_bar_for_each_that_was_measured() -> None:
    plot = ET.fromstring(drawn((_FIGURE,), _WHERE))  # noqa: S314 - our own
    space = "{http://www.w3.org/2000/svg}"
    bars = plot.findall(f"{space}rect")
    assert [bar.get("class") for bar in bars] == ["ours", "bar"]
    assert float(bars[0].get("width", 0)) > float(bars[1].get("width", 0)) > 0
    assert any("2026-01-02" in (text.text or "") for text in plot.findall(f"{space}text"))


def test_parts_are_counted_wherever_the_stream_is_cut() -> None:
    said = b'{"value":"some words that tick "}{"value":"@123 some words "}{"value":"tick tick"}' * 3
    for size in (1, 2, 3, 7, 40, len(said)):
        heard = Heard()
        for start in range(0, len(said), size):
            heard.feed(said[start : start + size])
        assert (heard.ticks, len(heard.lags), heard.size) == (9, 3, len(said))


def test_functions_of_the_package_are_counted_and_no_others() -> None:
    calls = Calls()
    with calls.counting():
        json.dumps({"not": "ours"})
        mended("ours")
    mended("not while it counts")
    assert calls.names == ["lm/surrogates.py: mended"]


# The text of a date, a timer that passed in the meantime.
_BY_CHANCE = 5


@pytest.mark.long
async def test_the_functions_for_a_step_are_the_same_in_every_run(tmp_path: Path) -> None:
    runs = []
    for number in ("1", "2"):
        (tmp_path / number).mkdir()
        runs.append(await counted(tmp_path / number))
    assert runs[0][TEXT] == runs[1][TEXT]
    # Beside a call run timers, and what is done once a second: a few functions are chance.
    assert len(set(runs[0][CALL]) ^ set(runs[1][CALL])) <= _BY_CHANCE
    # From the agent's line to the editor's, and through all between.
    text = runs[0][TEXT]
    assert text[0] == "jsonrpc/stream.py: Stream.data_received"
    assert text[-1] == "jsonrpc/stream.py: Stream._flush"
    assert any("guard" in name for name in text)
    # The result comes with a request of the editor's.
    assert len(set(runs[0][CALL]) - set(runs[0][RESULT])) <= _BY_CHANCE
    assert not any(name.endswith("VsCodeServer.request") for name in runs[0][CALL])
    assert any(name.endswith("VsCodeServer.request") for name in runs[0][RESULT])


@pytest.mark.long
def test_a_figure_can_be_measured_alone() -> None:
    command = (sys.executable, "-m", "bench.streaming", "--quick", "--only", OURS, "--only", FLOOR)
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    for name in (OURS, FLOOR):
        assert re.search(rf"stdio +{name} +\d+\.\d", done.stdout)
    assert re.search(r"http +acp2api +left out", done.stdout)
    assert re.search(r"[✓✗] stdio: of the floor's CPU: [\d.]+ ×", done.stdout)


def test_a_large_fleet_is_calculated_and_its_first_limit_named() -> None:
    part: dict[str, tuple[float, ...]] = {"gateway": (60.0,), "worker": (50.0,), "nats": (10.0,)}
    turn: dict[str, tuple[float, ...]] = {
        "gateway": (6.0,),
        "worker": (30.0,),
        "nats": (11.0,),
        "messages": (6.0,),
    }
    asked: dict[str, tuple[float, ...]] = {"gateway": (15.0,), "worker": (0.1,), "nats": (36.0,)}

    def page(listed_ms: float) -> str:
        rows: dict[str, dict[str, tuple[float, ...]]] = {
            TURN: turn,
            WRITTEN: {"rate": (8_000.0,)},
            LISTED: {"ms": (listed_ms,)},
            STORED: {"memory": (20.0,), "kilobytes": (8.0,)},
            bids_case(BIDDERS): asked,
            statuses_case(BIDDERS): asked,
        }
        scale = tuple(Row(case, FLEET, samples) for case, samples in rows.items())
        return calculated(
            (
                Figure("fleet", "", (), (Row(streams_case(MANY), FLEET, part),)),
                Figure("fleet_scale", "", (), scale),
            )
        )

    # 100,000 conversations of 0.05 ms each, where a person waits for a second.
    assert "list of all conversations: 5.0 times what there is. It is reached at 20,000" in page(0.05)
    # 60 µs for 100,000 parts, and 6 - 20 × 0.06 ms for 167 turns, and 15 ms for 17 rounds of bids.
    assert "6.0 cores for parts (60 µs each), 0.8 for turns (4.8 ms each) and 0.2 for bids" in page(0.05)
    assert "**The first limit** is NATS's CPU" in page(0.0001)
