"""The consumer's side of tools: what there is, what is offered, who agrees, what comes of it.

Everything a front end or a loop needs is importable from here. The tools that the terminal brings along are in
`dragoman.tools.builtin`, which is imported by whoever offers them.
"""

from dragoman.lm.parts import ToolResult
from dragoman.permissions.approvals import Approval, Approvals
from dragoman.permissions.autoapproval import AutoApproval
from dragoman.tools.context import ContextKeys, ContextValue
from dragoman.tools.decision import LEVELS, ApprovalLevel, Approve, Confirmer, Decision, Deny, ToolQuestion
from dragoman.tools.declaration import (
    Declaration,
    DeclarationError,
    Icon,
    ThemedIcon,
    declarations_from,
    load_declarations,
)
from dragoman.tools.definition import DefinedTool, tool
from dragoman.tools.invocation_token import InvocationToken
from dragoman.tools.preparation import PreparedCall, ToolProblem
from dragoman.tools.registry import RegisteredTool, RegistryError, ToolInfo, ToolRegistry
from dragoman.tools.runtime import ToolRuntime
from dragoman.tools.schema import SchemaError, SchemaProblem
from dragoman.tools.tool import (
    Confirmation,
    Invocation,
    PreparedInvocation,
    PreparingTool,
    Tool,
    ToolProgress,
)
from dragoman.tools.virtual import DEFAULT_LIMIT, ToolLimitError
from dragoman.tools.when import WhenError

__all__ = [
    "DEFAULT_LIMIT",
    "LEVELS",
    "Approval",
    "ApprovalLevel",
    "Approvals",
    "Approve",
    "AutoApproval",
    "Confirmation",
    "Confirmer",
    "ContextKeys",
    "ContextValue",
    "Decision",
    "Declaration",
    "DeclarationError",
    "DefinedTool",
    "Deny",
    "Icon",
    "Invocation",
    "InvocationToken",
    "PreparedCall",
    "PreparedInvocation",
    "PreparingTool",
    "RegisteredTool",
    "RegistryError",
    "SchemaError",
    "SchemaProblem",
    "ThemedIcon",
    "Tool",
    "ToolInfo",
    "ToolLimitError",
    "ToolProblem",
    "ToolProgress",
    "ToolQuestion",
    "ToolRegistry",
    "ToolResult",
    "ToolRuntime",
    "WhenError",
    "declarations_from",
    "load_declarations",
    "tool",
]
