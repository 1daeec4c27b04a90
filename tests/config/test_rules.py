"""`[[policy]]` tables: what is wrong with one is told with its line, and a found file can only tighten."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from dragoman.config import Config, ConfigError, ignored, layered, load, rules_of, user_config_file
from dragoman.config.editing import with_rule
from dragoman.models import Models, policy_of
from dragoman.policy.policy import Policy
from dragoman.policy.rule import PolicyRule

_HEADER = '[[policy]]\ndecision = "allow"\n'
_KINDS = '"delete", "edit", "execute", "fetch", "other", "read" or "tool"'


def _loaded(folder: Path, text: str, name: str = "dragoman.toml") -> Config:
    file = folder / name
    file.write_text(text, "utf-8")
    return load(file)


def _problems(folder: Path, text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        _loaded(folder, text)
    return [str(problem).removeprefix(f"{folder}/dragoman.toml:") for problem in caught.value.problems]


def test_every_key_of_a_rule(tmp_path: Path) -> None:
    config = _loaded(
        tmp_path,
        '[[policy]]\ndecision = "allow"\nkind = "execute"\nagent = ["a", "b"]\nworkspace = "~/src"\n'
        'command = ["git", ["status", "log"]]\nargs = "any"\nwithout = ["--output*"]\noptions = ["--oneline"]\n'
        'variables = ["CI"]\nredirects = ["out/**"]\nexpands = true\nreason = "Reading."\n'
        '[[policy]]\ndecision = "deny"\nkind = ["edit", "delete"]\npaths = [".git/**"]\nsensitive = true\n'
        '[[policy]]\ndecision = "ask"\nurls = ["https://*.example"]\ntools = ["run_*"]\n',
    )
    assert config.policy == (
        PolicyRule(
            decision="allow",
            kind="execute",
            agent=("a", "b"),
            workspace="~/src",
            command=("git", ("status", "log")),
            args="any",
            without=("--output*",),
            options=("--oneline",),
            variables=("CI",),
            redirects=("out/**",),
            expands=True,
            reason="Reading.",
        ),
        PolicyRule(decision="deny", kind=("edit", "delete"), paths=(".git/**",), sensitive=True),
        PolicyRule(decision="ask", urls=("https://*.example",), tools=("run_*",)),
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f'{_HEADER}comand = ["x"]\n', '3: unknown key "comand" in [[policy]]. Did you mean "command"?'),
        (
            f'{_HEADER}[[policy]]\nkind = "read"\n',
            '3: [[policy]] lacks "decision": "allow", "ask" or "deny".',
        ),
        (
            '[[policy]]\ndecision = "alow"\n',
            '2: "decision" in [[policy]]: expected "allow", "ask" or "deny", found "alow". Did you mean "allow"?',
        ),
        (
            f'{_HEADER}kind = "exec"\n',
            (
                f'3: "kind" in [[policy]]: expected {_KINDS}, or a list [ … ] of these, found "exec". '
                'Did you mean "execute"?'
            ),
        ),
        (
            f'{_HEADER}kind = [\n  "read",\n  "raed",\n]\n',
            f'5: element 2 of "kind" in [[policy]]: expected {_KINDS}, found "raed". Did you mean "read"?',
        ),
        (
            f"{_HEADER}agent = []\n",
            '3: "agent" in [[policy]]: expected a text in quotes, or a list [ … ] of texts in quotes, found an empty list.',
        ),
        (
            f'{_HEADER}command = "git log"\n',
            (
                '3: "command" in [[policy]]: expected a list [ … ] of texts in quotes or lists of texts in quotes, '
                'found "git log".'
            ),
        ),
        (
            f'{_HEADER}command = ["git",\n  ["log", 3]]\n',
            '4: element 2 of element 2 of "command" in [[policy]]: expected a text in quotes, found 3.',
        ),
        (
            f'{_HEADER}command = ["git", []]\n',
            (
                '3: element 2 of "command" in [[policy]]: '
                "expected a text in quotes, or a list [ … ] of texts in quotes, found an empty list."
            ),
        ),
        (
            '[policy]\ndecision = "allow"\n',
            '1: "policy": expected a list [ … ] of tables, found a table. Write [[policy]], with two brackets.',
        ),
        ('[[polcy]]\ndecision = "allow"\n', "1: unknown table [[polcy]]. Did you mean [[policy]]?"),
        *(
            (
                f"{_HEADER}{key} = {value}\n",
                f'3: "{key}" in [[policy]] needs "command": the command that it is a condition for.',
            )
            for key, value in {
                "args": '"any"',
                "without": '["x"]',
                "options": "[]",
                "variables": '["X"]',
                "redirects": '["x"]',
                "expands": "true",
            }.items()
        ),
        (
            f'{_HEADER}command = ["git"]\nwithout = ["-c"]\n',
            '4: "without" in [[policy]] needs args = "any". Otherwise the rule matches exactly its command.',
        ),
        (
            f'{_HEADER}command = [["npm",\n"n*"], "test"]\n',
            '4: the program in "command" in [[policy]] cannot be a pattern: "n*". Write its name, or a list of names',
        ),
        (
            f'{_HEADER}urls = ["https://a.example",\n"b.example"]\n',
            '4: "b.example" in "urls" in [[policy]]: ',
        ),
        (
            f'{_HEADER}paths = ["src/**",\n"../other/**"]\n',
            '4: "../other/**" in "paths" in [[policy]]: A glob does not climb',
        ),
        (
            f'{_HEADER}command = ["ls"]\nredirects = ["../x"]\n',
            '4: "../x" in "redirects" in [[policy]]: A glob does not climb',
        ),
        (
            f'{_HEADER}command = ["git", "log"]\nexamples = [\n  "git log",\n  "git push",\n]\n',
            '6: "git push" in "examples" in [[policy]]: the rule does not match it.',
        ),
        (
            f'{_HEADER}paths = ["src/**"]\ncounterexamples = ["docs/a", "src/a"]\n',
            '4: "src/a" in "counterexamples" in [[policy]]: the rule matches it.',
        ),
        (
            f'{_HEADER}kind = "edit"\nexamples = ["x"]\n',
            '4: "examples" in [[policy]] need "command", "paths", "urls" or "tools" to match.',
        ),
    ],
)
def test_what_is_wrong_with_a_rule_is_told_with_its_line(tmp_path: Path, text: str, problem: str) -> None:
    [found] = _problems(tmp_path, text)
    assert found.startswith(problem)


@given(st.text("abcdeinorst_", min_size=1).filter(lambda name: name not in PolicyRule.__struct_fields__))
def test_d4_an_unknown_field_of_a_rule_is_an_error(
    tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    found = _problems(tmp_path_factory.getbasetemp(), f'{_HEADER}"{name}" = "x"\n')
    assert any(problem.startswith(f'3: unknown key "{name}" in [[policy]].') for problem in found)


def test_rules_have_their_file_and_line_and_absolute_workspaces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    text = '# Mine.\n[[policy]]\ndecision = "deny"\nworkspace = ["~/a", "b", "/c"]\n\n[[policy]]\ndecision = "ask"\n'
    first, second = rules_of(_loaded(tmp_path, text))
    file = str(tmp_path / "dragoman.toml")
    assert (first.file, first.line, second.file, second.line) == (file, 2, file, 6)
    assert first.rule.workspace == ("/home/somebody/a", f"{tmp_path}/b", "/c")
    assert second.rule.workspace is None
    assert rules_of(Config()) == ()


_RULES = st.lists(
    st.tuples(st.sampled_from(["allow", "ask", "deny"]), st.sampled_from(["", "[loop]\nturns = 3\n"])),
    max_size=6,
)


def _text(rules: list[tuple[str, str]]) -> str:
    between = {""}
    text = ""
    for decision, before in rules:
        # TOML has each table once.
        text += "" if before in between else before
        between.add(before)
        text += f'[[policy]]\ndecision = "{decision}"\n'
    return text


@given(_RULES, _RULES)
def test_d4_a_found_file_never_loosens(
    tmp_path_factory: pytest.TempPathFactory, own: list[tuple[str, str]], found: list[tuple[str, str]]
) -> None:
    folder = tmp_path_factory.getbasetemp()
    mine = _loaded(folder, _text(own), "own.toml")
    theirs = _loaded(folder, _text(found), "found.toml")
    rules = rules_of(layered(mine, theirs))
    assert [each for each in rules if each.file.endswith("own.toml")] == list(rules_of(mine))
    added = [each for each in rules if each.file.endswith("found.toml")]
    assert [each.rule.decision for each in added] == [each for each, _ in found if each != "allow"]
    said = (ignored(mine, theirs) or "").count('[[policy]] with decision = "allow" (line ')
    assert said == sum(decision == "allow" for decision, _ in found)


def test_a_rule_is_added_behind_everything_and_nothing_else_changes(tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    table = '[[policy]]\ndecision = "allow"\ncommand = ["git", "log"]\n'
    before = '# Mine.\n[models.a]\nkind = "acp"\nagent = "only-in-a-newer-catalogue"\n[[policy]]\ndecision = "deny"'
    after = with_rule(file, before, table)
    assert after == f"{before}\n\n{table}"
    assert with_rule(file, "", table) == table
    assert tomllib.loads(after)["policy"][1] == {"decision": "allow", "command": ["git", "log"]}


def test_d6_a_rule_that_is_added_is_in_force_at_once(tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    models = Models(_loaded(tmp_path, '[[policy]]\ndecision = "ask"\n'))
    in_force = models.permissions.rules
    # What the user has written meanwhile counts, too.
    file.write_text(f'{file.read_text()}[[policy]]\ndecision = "deny"\nkind = "delete"\n')
    added = models.add_rules(
        '[[policy]]\ndecision = "allow"\nkind = "read"\nreason = "[[policy]]"\n\n'
        '[[policy]]\ndecision = "allow"\nkind = "fetch"\n'
    )
    assert (added.file, added.line, added.rule.kind) == (str(file), 7, "read")
    assert [each.rule.decision for each in models.rules] == ["ask", "deny", "allow", "allow"]
    assert isinstance(in_force.policy, Policy)
    assert in_force.policy.rules == models.rules == rules_of(load(file))


def test_the_first_rule_makes_the_users_own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    found = _loaded(tmp_path, '[[policy]]\ndecision = "deny"\n', "found.toml")
    models = Models(layered(Config(), found))
    models.add_rules(_HEADER)
    assert models.rules_file == user_config_file()
    assert models.rules_file.read_text() == _HEADER
    assert [each.rule.decision for each in models.rules] == ["allow", "deny"]


@pytest.mark.parametrize("text", ["broken =", "[loop]\nturns = 'x'\n", "policy = []\n"])
def test_a_file_that_cannot_be_changed_stays_as_it_is(tmp_path: Path, text: str) -> None:
    models = Models(_loaded(tmp_path, ""))
    (tmp_path / "dragoman.toml").write_text(text)
    with pytest.raises(ConfigError, match=r"dragoman\.toml"):
        models.add_rules(_HEADER)
    assert (tmp_path / "dragoman.toml").read_text() == text
    assert models.rules == ()


@pytest.mark.parametrize(
    ("before", "table", "problem"),
    [
        ("policy = []\n", _HEADER, "Add it by hand"),
        (
            "[loop]\nturns = 3\n",
            f'{_HEADER}without = ["x"]\n',
            r'dragoman\.toml:6: "without" in \[\[policy\]\] needs',
        ),
        ("", f"{_HEADER}[loop]\nturns = 3\n", "Add it by hand"),
    ],
)
def test_a_rule_that_cannot_be_added_is_refused(before: str, table: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        with_rule(Path("dragoman.toml"), before, table)


async def test_a_changed_rule_is_in_force_at_once(tmp_path: Path) -> None:
    models = Models(_loaded(tmp_path, ""))
    rules = models.permissions.rules
    seen = [rules.policy]
    for text in (_HEADER, _HEADER, ""):
        assert not models.adopt(_loaded(tmp_path, text))
        seen.append(rules.policy)
    assert isinstance(seen[1], Policy)
    assert seen == [None, seen[1], seen[1], None]
    await models.close()


def test_without_rules_nothing_of_the_analysis_is_imported() -> None:
    program = (
        "import sys\n"
        "from dragoman.config import Config\n"
        "from dragoman.models import Models, policy_of\n"
        "from dragoman.backends.agent.model import AgentModel\n"
        "from dragoman.frontends.terminal.session import ChatSession\n"
        "assert policy_of(Config()) is None\n"
        "assert Models(Config()).permissions.rules.policy is None\n"
        "print(sorted(name for name in sys.modules if name.startswith(('dragoman.policy', 'tree_sitter'))))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    # These are types and text only.
    light = ["dragoman.policy", *(f"dragoman.policy.{name}" for name in ("offer", "rule", "rule_text"))]
    assert done.stdout.strip() == str(light)
    assert policy_of(Config()) is None
