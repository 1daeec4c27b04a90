"""Rules against actions: every condition, for what allows and for what restricts (scenarios D4 and D6 rest on it)."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from dragoman.permissions.action import Action
from dragoman.permissions.sensitive import Places
from dragoman.policy.rule import PolicyRule
from permissions.actions import HOME, WORKSPACE, action, diff
from policy.judging import PLACES, allow, ask, command, deny, judgement, policy, verdict

GIT = allow(command=("git", ("status", "log")), args="any", without=("--output*", "-c"))
LS = allow(command=("ls",), args="any", options=("-l", "-a"), paths=("**",))
CD = allow(command=("cd",), args="any", options=(), paths=("**",))


# --- Commands that a rule allows. ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("git log --oneline", "allow"),
        ("git log && git status", "allow"),
        ("git log | ls -la", "allow"),
        ("git log; rm x", "none"),
        ("git push", "none"),
        ("git -c core.pager=evil log", "none"),
        ("git log --output=x", "none"),
        ("git log --outp x", "none"),
        ("./git log", "none"),
        ("/tmp/git log", "none"),
        ("GIT log", "none"),
        ("git log > x", "none"),
        ("git log > /dev/null 2>&1", "allow"),
        ("GIT_PAGER=evil git log", "none"),
        ("git log $x", "none"),
        ("git log *", "none"),
        ("git log src/*", "allow"),
        ("git log ~/x", "allow"),
        ("ls", "allow"),
        ("ls -la src docs", "allow"),
        ("ls -lR", "none"),
        ("ls --", "allow"),
        ("ls ..", "none"),
        ("ls ~/x", "none"),
        ("ls src/*", "none"),
        ("ls -l/etc", "none"),
        ("cd src && ls", "allow"),
        ("cd .. && git status", "none"),
        ("cd ~ && git status", "none"),
        ("cd src; git status", "allow"),
        ("cd src/.. && ls", "allow"),
        ("cd src | git log", "allow"),
        ("xargs git log", "none"),
        ("timeout 5 git log", "allow"),
        ("timeout 5", "none"),
        ("bash -c 'git log; ls'", "allow"),
        ("bash -c 'git log; rm x'", "none"),
        ("bash", "none"),
        ("", "none"),
        (["git", "log"], "allow"),
        (["git", "log", "$x", "*"], "allow"),
        (["bash", "-lc", "git log"], "allow"),
        (["git log"], "none"),
    ],
)
def test_a_command_is_allowed_if_each_simple_command_is(line: str | list[str], expected: str) -> None:
    assert verdict(line, GIT, LS, CD) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("make test", "allow"),
        ("make test SHELL=./evil", "none"),
        ("make", "none"),
        ("make test -n", "none"),
        ("xargs make test", "none"),
        ("npm test --silent", "allow"),
        ("npm test --silent --silent", "allow"),
        ("npm test x", "none"),
        ("npm test --loud", "none"),
        ("npm test $x", "none"),
    ],
)
def test_without_args_exactly_this_command_and_its_options_are_allowed(line: str, expected: str) -> None:
    assert (
        verdict(line, allow(command=("make", "test")), allow(command=("npm", "test"), options=("--silent",)))
        == expected
    )


@pytest.mark.parametrize(
    ("line", "rule", "expected"),
    [
        ("CI=1 npm run x", allow(command=("npm",), args="any", variables=("CI",)), "allow"),
        ("CI=1 PATH=. npm run x", allow(command=("npm",), args="any", variables=("CI",)), "none"),
        ("env CI=1 npm run x", allow(command=("npm",), args="any", variables=("CI",)), "allow"),
        ("npm run x > build/log", allow(command=("npm",), args="any", redirects=("build/**",)), "allow"),
        ("npm run x > log", allow(command=("npm",), args="any", redirects=("build/**",)), "none"),
        ("npm run x < build/in", allow(command=("npm",), args="any", redirects=("build/**",)), "allow"),
        ("npm run x > $log", allow(command=("npm",), args="any", redirects=("build/**",)), "none"),
        ("grep x $files", allow(command=("grep",), args="any", expands=True), "allow"),
        ("grep x *", allow(command=("grep",), args="any", expands=True), "allow"),
        ("xargs grep x", allow(command=("grep",), args="any", expands=True), "allow"),
        ("xargs grep x", allow(command=("grep",), args="any", options=("-l",), expands=True), "none"),
        ("xargs grep x --", allow(command=("grep",), args="any", options=("-l",), expands=True), "allow"),
        ("grep x $y", allow(command=("grep",), args="any", without=("-f",), expands=True), "none"),
        ("grep x -- $y", allow(command=("grep",), args="any", without=("-f",), expands=True), "allow"),
        ("grep -e -- $y", allow(command=("grep",), args="any", without=("-f",), expands=True), "none"),
        ("grep x -- $y", allow(command=("grep",), args="any", without=("secret",), expands=True), "none"),
        ("grep x s*", allow(command=("grep",), args="any", without=("secret",)), "none"),
        ("grep x s*", allow(command=("grep",), args="any", without=("-f",)), "allow"),
        ("grep x ~/s", allow(command=("grep",), args="any", without=("/home/*",)), "none"),
        ("grep $y", allow(command=("grep",), expands=True), "none"),
        ("grep x $(rm y)", allow(command=("grep",), args="any", expands=True), "none"),
        ("$grep x", allow(command=("grep",), args="any", expands=True), "none"),
        ("grep x $y", allow(command=("grep",), args="any", paths=("**",), expands=True), "none"),
        ("xargs grep x", allow(command=("grep",), args="any", paths=("**",), expands=True), "none"),
    ],
)
def test_variables_redirects_and_expansions_need_a_rule_that_names_them(
    line: str, rule: PolicyRule, expected: str
) -> None:
    assert verdict(line, rule) == expected


@pytest.mark.parametrize(
    "given",
    [
        {"command": "git log", "args": "--output=x"},
        {"command": "git log", "args": [1]},
        {"command": "git log", "arguments": [["--output=x"]]},
        {"command": "git log", "parameters": {"output": "x"}},
        {"command": ["git", "log"], "args": ["--output=x"]},
        {"commandLine": "git log", "args": ["--output=x"]},
        {"script": "git log", "args": ["--output=x"]},
        {"command": "git", "args": ["log"], "parameters": "--output=x"},
        {"command": "git log", "cwd": "src", "workdir": "docs"},
    ],
)
def test_arguments_and_folders_that_are_not_clear_keep_a_rule_from_allowing(given: dict[str, object]) -> None:
    found = judgement(action(places=PLACES, kind="execute", input=given), GIT)
    assert found.verdict.decision is None
    assert found.unsure


@pytest.mark.parametrize(
    "given",
    [
        {"command": "git", "args": ["log"]},
        {"command": "git log", "args": []},
        {"command": "git log", "args": None, "cwd": "src"},
        {"argv": ["git", "log"]},
    ],
)
def test_arguments_and_folders_that_are_clear_are_used(given: dict[str, object]) -> None:
    assert verdict(action(places=PLACES, kind="execute", input=given), GIT) == "allow"


def test_what_the_agent_sets_beside_the_command_counts_as_part_of_it() -> None:
    rule = allow(command=("npm", "test"), variables=("CI",))
    assert verdict(command("npm test", env={"CI": "1"}), rule) == "allow"
    assert verdict(command("npm test", env=[{"name": "CI", "value": "1"}]), rule) == "allow"
    assert verdict(command("npm test", env={"LD_PRELOAD": "x"}), rule) == "none"
    assert judgement(command("npm test", env="CI=1"), rule).unsure == (
        "the environment that it would run with",
    )
    assert verdict(command("npm test", description="Run the tests", timeout=5), rule) == "allow"
    assert judgement(command("npm test", stdin="x"), rule).unsure == ("the field “stdin” of the request",)
    assert judgement(command("npm test", sandbox=False), rule).unsure == (
        "the field “sandbox” of the request",
    )
    assert verdict(command("npm test", stdin=None), rule) == "allow"


def test_two_commands_in_a_request_are_judged_one_by_one() -> None:
    # Joined, the second would be a part of a quoted argument of the first.
    hidden = command("git log '", script="rm -rf x #'")
    assert verdict(hidden, allow(command=("git", "log"), args="any")) == "none"
    assert (
        verdict(hidden, allow(command=("git", "log"), args="any"), deny(command=("rm",), args="any"))
        == "deny"
    )
    both = command("git log", commands=["git log", "git status"])
    assert verdict(both, GIT) == "allow"


def test_a_program_with_arguments_beside_it_is_a_vector() -> None:
    rule = allow(command=("git", "log"), args="any")
    assert verdict(command("git", args=["log", "a; rm b"]), rule) == "allow"
    assert judgement(command("git log", args=["-5"]), rule).unsure == ("what its fields mean",)


def test_a_request_that_also_changes_a_file_is_not_allowed_by_its_command() -> None:
    both = action(kind="execute", input={"command": "git log"}, content=[diff(f"{WORKSPACE}/a", None, "x")])
    assert judgement(both, GIT).unsure == ("a change of a file beside the command",)
    odd = action(kind="execute", input=[{"command": "git log"}])
    assert judgement(odd, GIT).unsure == ("the form of the request",)


def test_a_command_that_runs_elsewhere_is_allowed_only_by_a_rule_for_sensitive_actions() -> None:
    elsewhere = command("git log", cwd="/tmp")
    assert elsewhere.sensitive is not None
    assert verdict(elsewhere, GIT) == "none"
    assert verdict(elsewhere, allow(command=("git", "log"), sensitive=True)) == "allow"
    assert (
        verdict("cd /tmp && git log", allow(command=(("cd", "git"),), args="any", sensitive=True)) == "allow"
    )


def test_a_glob_in_a_listing_may_lead_through_a_link_so_it_is_asked_about(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "out").symlink_to("/etc")
    places = Places.around([tmp_path])
    assert verdict(command("ls src", places=places), LS, places=places) == "allow"
    assert verdict(command("ls out", places=places), LS, places=places) == "none"
    assert verdict(command("cd out && ls x", places=places), LS, CD, places=places) == "none"
    assert verdict(command("ls src/*", places=places), LS, places=places) == "none"


# --- Commands that a rule restricts. ---------------------------------------------------------------------------------

RM = deny(command=("rm",), args="any")
PUSH = deny(command=("git", "push"), args="any")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("rm x", "deny"),
        ("ls; rm x", "deny"),
        ("/bin/rm x", "deny"),
        ("RM x", "deny"),
        (r"r'm' x", "deny"),
        (r"\rm x", "deny"),
        ("A=1 rm x > y", "deny"),
        ("timeout 5 rm x", "deny"),
        ("bash -c 'ls; rm x'", "deny"),
        ("ls | xargs rm", "deny"),
        ("ls $(rm x)", "deny"),
        ("if true; then rm x; fi", "deny"),
        ("rm x; eval y", "deny"),
        # What may run it is asked about.
        ("eval rm x", "doubt"),
        ("sudo rm x", "doubt"),
        ("sudo sh -c 'rm x'", "doubt"),
        ("find . -exec rm {} +", "doubt"),
        ("unknown-wrapper rm x", "doubt"),
        ("$x y", "doubt"),
        ("r* x", "doubt"),
        ("ls \x1b", "doubt"),
        ("python3 -c 'import os; os.system(\"rm x\")'", "doubt"),
        # These do not.
        ("ls x", "none"),
        ("grep -r 'rm x' .", "none"),
        ("git push", "deny"),
        ("git push origin main", "deny"),
        ("git -C . push", "doubt"),
        ("git $x", "doubt"),
        ("xargs git", "doubt"),
        ("git log push", "none"),
        ("git", "none"),
        ("sudo git push", "doubt"),
        ("sudo git log", "none"),
        (["rm", "x"], "deny"),
        ([], "doubt"),
    ],
)
def test_a_denied_command_is_found_wherever_it_stands(line: str | list[str], expected: str) -> None:
    assert verdict(line, RM, PUSH) == expected


def test_a_doubt_keeps_other_rules_from_allowing() -> None:
    everything = allow(command=("sudo",), args="any")
    assert verdict("sudo rm x", everything) == "allow"
    assert verdict("sudo rm x", everything, RM) == "doubt"
    assert verdict("sudo ls x", everything, RM) == "allow"
    whole = allow(kind="execute")
    assert verdict("eval x", whole) == "allow"
    assert verdict("eval x", whole, RM) == "doubt"


def test_conditions_of_a_deny_rule_that_are_not_certain_are_a_doubt() -> None:
    unless_dry = deny(command=("git", "push"), args="any", without=("--dry-run",))
    assert verdict("git push", unless_dry) == "deny"
    assert verdict("git push --dry-run", unless_dry) == "none"
    # An abbreviation may be the option, or another one.
    assert verdict("git push --dry", unless_dry) == "doubt"
    assert verdict("git push $x", unless_dry) == "doubt"
    exactly = deny(command=("git", "push"))
    assert verdict("git push", exactly) == "deny"
    assert verdict("git push origin", exactly) == "none"


def test_paths_of_a_restricting_rule_are_any_argument_of_any_command() -> None:
    secrets = ask(paths=("secrets/**",))
    assert verdict("cat secrets/a", secrets) == "ask"
    assert verdict("cat -- src/../SECRETS/a", secrets) == "ask"
    assert verdict("tool --file=secrets/a", secrets) == "ask"
    assert verdict("tool -fsecrets/a", secrets) == "ask"
    assert verdict("ls > secrets/a", secrets) == "ask"
    assert verdict("secrets/run", secrets) == "ask"
    assert verdict("cd secrets; cat a", secrets) == "ask"
    assert verdict("cat a", secrets) == "none"
    assert verdict("cat *", secrets) == "doubt"
    assert verdict("cat $x", secrets) == "doubt"
    assert verdict("xargs cat", secrets) == "doubt"
    assert verdict("cd $x; cat a", secrets) == "doubt"
    assert verdict("cat ~/a", ask(paths=("~/a",))) == "ask"
    assert verdict("cat '~/a'", ask(paths=("~/a",))) == "none"
    assert verdict("~/bin/x", ask(paths=("~/bin/**",))) == "ask"
    assert verdict("cat secrets/a", ask(command=("cat",), args="any", paths=("secrets/**",))) == "ask"
    assert verdict("tac secrets/a", ask(command=("cat",), args="any", paths=("secrets/**",))) == "none"


# --- Other actions. --------------------------------------------------------------------------------------------------


def edit(*paths: str) -> Action:
    blocks = [diff(path, "a", "b") for path in paths]
    return action(kind="edit", content=blocks)


def test_every_path_must_be_allowed_and_one_may_be_denied() -> None:
    inside, elsewhere = f"{WORKSPACE}/src/a", f"{WORKSPACE}/docs/b"
    rule = allow(kind="edit", paths=("src/**",))
    assert verdict(edit(inside), rule) == "allow"
    assert verdict(edit(inside, elsewhere), rule) == "none"
    assert verdict(edit(inside, elsewhere), rule, deny(kind=("edit", "delete"), paths=("docs/**",))) == "deny"
    assert verdict(edit("src/a"), rule) == "none", (
        "which folder an agent takes a relative path from is not known"
    )
    assert verdict(action(kind="edit", input={"x": "y"}), rule) == "none"
    assert verdict(action(kind="edit", input={"x": "y"}), deny(paths=("src/**",))) == "doubt"
    assert verdict(action(kind="delete", locations=[(inside, None)]), rule) == "none"
    own = action(kind="tool", tool="write_file", input={"path": "src/a", "content": "x"})
    assert verdict(own, allow(kind="tool", paths=("src/**",))) == "allow"


def test_an_allow_rule_for_paths_says_nothing_about_commands() -> None:
    assert verdict("rm src/a", allow(paths=("src/**",))) == "none"
    assert verdict("./run", allow(kind="execute", paths=("src/**",))) == "none"


def test_sensitive_actions_need_a_rule_that_says_so() -> None:
    settings = edit(f"{WORKSPACE}/.vscode/settings.json")
    assert settings.sensitive is not None
    assert verdict(settings, allow(kind="edit")) == "none"
    assert verdict(settings, allow(kind="edit", sensitive=True)) == "allow"
    assert judgement(settings, allow(kind="edit", sensitive=True)).verdict.covers_sensitive
    assert verdict(settings, deny(sensitive=True)) == "deny"
    assert verdict(edit(f"{WORKSPACE}/a"), deny(sensitive=True)) == "none"
    assert verdict(edit(f"{WORKSPACE}/a"), allow(kind="edit", sensitive=True)) == "allow"


def test_no_rule_allows_what_belongs_to_dragoman() -> None:
    own = f"{HOME}/.config/dragoman/dragoman.toml"
    places = Places((WORKSPACE,), HOME, (own,))
    everything = allow(sensitive=True)
    assert (
        verdict(action(places=places, kind="edit", content=[diff(own, "a", "b")]), everything, places=places)
        == "none"
    )
    assert verdict(command(f"sed -i s/a/b/ {own}", places=places), everything, places=places) == "none"
    assert verdict(command("cat ~/.config/dragoman/*", places=places), everything, places=places) == "none"
    other = f"{WORKSPACE}/.vscode/tasks.json"
    assert (
        verdict(
            action(places=places, kind="edit", content=[diff(other, "a", "[b]")]), everything, places=places
        )
        == "allow"
    )
    assert verdict(command("cat .env", places=places), everything, places=places) == "allow"


def fetch(*urls: str) -> Action:
    return action(kind="fetch", input={"urls": list(urls)})


def test_addresses() -> None:
    docs = ("https://docs.example/*",)
    assert verdict(fetch("https://docs.example/a"), allow(urls=docs)) == "allow"
    assert verdict(fetch("https://docs.example/a", "https://evil.example/"), allow(urls=docs)) == "none"
    assert verdict(fetch("https://evil.example/", "https://docs.example/a"), deny(urls=docs)) == "deny"
    assert verdict(fetch("https://[bad"), allow(urls=docs)) == "none"
    assert verdict(fetch("https://[bad"), deny(urls=docs)) == "doubt"
    assert verdict(action(kind="fetch", input={"prompt": "x"}), deny(urls=docs)) in ("doubt", "none")
    assert verdict("curl https://docs.example/a", allow(urls=docs)) == "none"
    assert verdict(fetch("https://docs.example/a"), allow(paths=("**",))) == "none"


def test_tools_agents_and_workspaces() -> None:
    mcp = action(kind="other", tool="mcp__github__list", input={"x": 1})
    assert verdict(mcp, allow(tools=("mcp__github__*",))) == "allow"
    assert verdict(mcp, allow(kind="tool", tools=("mcp__github__*",))) == "allow"
    assert verdict(mcp, allow(kind="other")) == "allow"
    assert verdict(mcp, allow(tools=("MCP__*",))) == "none"
    assert verdict(mcp, deny(tools=("MCP__*",))) == "deny"
    nameless = action(kind="other", input={"x": 1})
    assert verdict(nameless, allow(tools=("*",))) == "none"
    assert verdict(nameless, deny(tools=("mcp__*",))) == "doubt"
    assert verdict(nameless, allow(kind="tool")) == "none"
    assert verdict(mcp, allow(agent="claude")) == "allow"
    assert verdict(mcp, allow(agent=("codex", "gemini"))) == "none"
    unknown = action(agent="", kind="other", tool="x", input={"x": 1})
    assert verdict(unknown, allow(agent="claude")) == "none"
    assert verdict(unknown, deny(agent="claude")) == "doubt"
    assert verdict(mcp, allow(workspace=WORKSPACE)) == "allow"
    assert verdict(mcp, allow(workspace=("/other", "/srv"))) == "allow"
    assert verdict(mcp, allow(workspace="/srv/proj")) == "none"
    two = Places((WORKSPACE, "/other"), HOME)
    assert verdict(mcp, allow(workspace=WORKSPACE), places=two) == "none"
    assert verdict(mcp, deny(workspace=WORKSPACE), places=two) == "deny"
    assert verdict(mcp, allow(workspace=WORKSPACE), places=Places((), HOME)) == "none"


def test_a_workspace_of_a_rule_may_begin_at_the_home() -> None:
    home = os.path.expanduser("~")  # noqa: PTH111 - as the rule has it
    places = Places((f"{home}/project",), home)
    assert (
        verdict(
            action(places=places, kind="other", tool="x", input={"x": 1}),
            allow(workspace="~/project"),
            places=places,
        )
        == "allow"
    )


def test_the_verdict_names_the_rules_and_the_reason_of_the_strictest() -> None:
    found = judgement(
        "git log; rm x",
        GIT,
        deny(command=("rm",), args="any", reason="Use trash."),
        ask(command=("rm",), args="any", reason="Sure?"),
    ).verdict
    assert (found.decision, found.reason) == ("deny", "Use trash.")
    assert [(rule.decision, rule.where) for rule in found.rules] == [
        ("deny", "dragoman.toml:2"),
        ("ask", "dragoman.toml:3"),
        ("allow", "dragoman.toml:1"),
    ]


def test_tree_sitter_is_not_used_for_rules_that_are_not_about_commands() -> None:
    assert policy(allow(kind="read")).judgement(command("ls"), PLACES).commands == ()
    assert verdict("ls", allow(kind="execute")) == "allow"


def test_an_action_of_which_only_a_title_is_known() -> None:
    titled = action(kind="execute", title="rm x")
    assert verdict(titled, RM) == "doubt"
    assert verdict(titled, GIT) == "none"
    assert verdict(titled, deny(kind="execute")) == "deny"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("$(" * 30 + "ls" + ")" * 30, "commands that are nested too deeply"),
        ("( " * 30 + "ls" + " )" * 30, "commands that are nested too deeply"),
        ("ls \udc80", "text that is not Unicode"),
        ("ls " + "x" * 5_000, "more than 5,000 characters"),
        ("ls;" * 300, "too many commands"),
    ],
    ids=["substitutions", "groups", "surrogate", "long", "many"],
)
def test_a_line_beyond_the_limits_is_not_understood(line: str, why: str) -> None:
    everything = (
        allow(command=("ls",), args="any", expands=True),
        allow(command=("echo",), args="any", expands=True),
    )
    found = judgement(line, *everything)
    assert why in found.unsure
    assert found.verdict.decision is None
    assert verdict(line, *everything, RM) == "doubt"


def test_a_shell_in_a_shell_to_any_depth_is_seen_through_until_a_limit() -> None:
    line = "ls"
    for _ in range(4):
        line = f"sh -c {shlex.quote(line)}"
    assert verdict(line, allow(command=("ls",))) == "allow"
    for _ in range(20):
        line = f"sh -c {shlex.quote(line)}"[:20_000]
    assert verdict(line, allow(command=("ls",))) == "none"


# --- Why a rule does not match. --------------------------------------------------------------------------------------

BUILD = allow(
    command=("npm", "run"),
    args="any",
    options=("--silent",),
    variables=("CI",),
    redirects=("build/**",),
    paths=("**",),
)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("npm run x", None),
        ("npm test", None),
        ("A=1 npm run x", "it does not name the variable A"),
        ("npm run --loud x", "it does not allow the argument --loud"),
        ("npm run $x", "an argument is forbidden, or computed by the shell"),
        ("npm run x > out", "it does not allow the redirect to or from out"),
        ("cd sub; npm run x", "it does not hold in the folder that the command would run in"),
        ("npm run ../x", "a path is not among those that it allows, or may be a link to a sensitive file"),
    ],
)
def test_an_explanation_says_why_a_rule_with_the_same_words_does_not_allow(
    line: str, why: str | None
) -> None:
    found = policy(BUILD, RM).judgement(command(line), PLACES, explains=True)
    assert [reason for each in found.commands for _, reason in each.objections] == (
        [] if why is None else [why]
    )
    assert policy(BUILD).judgement(command(line), PLACES).commands[-1].objections == ()


def test_a_link_that_cannot_be_looked_up_may_lead_anywhere(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")

    def resolve(path: str) -> str:
        if path.endswith("loop"):
            raise OSError("too many links")
        return os.path.realpath(path)

    places = Places((str(tmp_path),), HOME, resolve=resolve)
    cat = allow(command=("cat",), args="any")
    assert verdict(command("cat loop", places=places), cat, places=places) == "none"
    assert verdict(command("cat a", places=places), cat, places=places) == "allow"


def test_an_edit_whose_input_is_no_object_is_not_allowed_by_its_paths() -> None:
    odd = action(kind="edit", locations=[(f"{WORKSPACE}/src/a", None)], input=["x"])
    assert verdict(odd, allow(kind="edit", paths=("src/**",))) == "none"


def test_a_command_of_an_unknown_form_is_not_understood() -> None:
    odd = action(kind="execute", input={"command": {"program": "ls"}})
    assert judgement(odd, allow(command=("ls",))).unsure == ("what its fields mean",)
