"""Language models from the configuration.

`building` makes one, `Models` is what a front end holds, and `sources` says what each kind of front end needs of it.
"""

from dragoman.models.building import ModelNotUsable, SharedServices, build, build_unguarded, find
from dragoman.models.models import Models
from dragoman.models.services import (
    auto_approval,
    cautions_of,
    journals_of,
    log_cautions,
    own_places,
    permissions_of,
    policy_of,
)
from dragoman.models.sources import AgentSource, Conversing, Learning, LiveConversation, ModelSource, Remote

__all__ = [
    "AgentSource",
    "Conversing",
    "Learning",
    "LiveConversation",
    "ModelNotUsable",
    "ModelSource",
    "Models",
    "Remote",
    "SharedServices",
    "auto_approval",
    "build",
    "build_unguarded",
    "cautions_of",
    "find",
    "journals_of",
    "log_cautions",
    "own_places",
    "permissions_of",
    "policy_of",
]
