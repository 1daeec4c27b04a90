"""What `dragoman fleet status` prints, from what the nodes say."""

import pytest

from dragoman.cli.fleet_status import _node, _orphans, _stored
from dragoman.fleet.messages import NodeStatus
from dragoman.fleet.survey import NodeReport


def _cells(status: NodeStatus) -> tuple[str, ...]:
    return _node(NodeReport(status.name, status))[3:7]


def test_a_gateway_runs_no_agents() -> None:
    assert _cells(NodeStatus("g1", "life", "gateway", "1.0")) == ("-",) * 4
    assert _cells(NodeStatus("w1", "life", "worker", "1.0")) == ("0", "0", "0 B", "0")


def test_responses_without_a_gateway_are_named_with_their_worker() -> None:
    nodes = [
        NodeReport(
            "w1",
            NodeStatus(
                "w1", "life", "worker", "1.0", orphans={"resp_b": "s2", "resp_a": "s1"}, orphan_count=70
            ),
        ),
        NodeReport("w2", NodeStatus("w2", "life", "worker", "1.0")),
        NodeReport("w3"),
    ]
    [line] = _orphans(nodes)
    assert line.startswith("\nw1 keeps background responses whose gateway is gone")
    assert line.endswith(": resp_a, resp_b and 68 more")


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 conversations, chats and background responses were stored; this counts deleted ones, too."),
        (1, "1 conversation, chat or background response was stored; this counts deleted ones, too."),
    ],
)
def test_one_is_singular(count: int, words: str) -> None:
    assert _stored(count) == words
