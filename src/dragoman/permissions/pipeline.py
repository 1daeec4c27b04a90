"""What the conversations of a process share: rules, approvals, settings, pending requests, the record; and their decision."""

from __future__ import annotations

from dataclasses import dataclass, field

from dragoman.permissions.action import Action
from dragoman.permissions.approvals import Approvals
from dragoman.permissions.autoapproval import AutoApproval
from dragoman.permissions.decide import StepDecision, decide
from dragoman.permissions.edit_mode import EditMode
from dragoman.permissions.grants import Grants
from dragoman.permissions.inbox import Inbox
from dragoman.permissions.keys import approval_key
from dragoman.permissions.record import DecisionRecord
from dragoman.permissions.rules_in_force import RulesInForce
from dragoman.permissions.sensitive import Places

__all__ = ["PermissionServices"]


@dataclass(frozen=True, slots=True)
class PermissionServices:
    approvals: Approvals = field(default_factory=Approvals)
    settings: AutoApproval = field(default_factory=AutoApproval)
    grants: Grants = field(default_factory=Grants)
    record: DecisionRecord = field(default_factory=DecisionRecord)
    # Files and folders of Dragoman: the state folder, the configuration.
    own: tuple[str, ...] = ()
    rules: RulesInForce = field(default_factory=RulesInForce)
    # What waits at the console. Without a console no one is reachable there.
    inbox: Inbox = field(default_factory=Inbox)
    # The chats in which edits are accepted.
    edit_mode: EditMode = field(default_factory=EditMode)

    def places(self, workspace: tuple[str, ...]) -> Places:
        return Places.around(workspace, self.own)

    def decide(
        self, action: Action, session: str, workspace: tuple[str, ...], *, read_only: bool = False
    ) -> StepDecision:
        """What happens to an action before a person is asked. Approvals for a workspace are for its first folder."""
        tool = action.permission_tool
        return decide(
            tool,
            self.settings,
            lambda: self.approvals.covers(session, tool, approval_key(action), workspace=workspace[0]),
            self.rules.judge(action, self.places(workspace)),
            sensitive=action.sensitive is not None,
            always_ask=not action.has_substance,
            read_only=read_only,
            urls=action.urls if action.risk == "fetch" else (),
            accepts_edit=self.edit_mode.accepts(session, action),
        )
