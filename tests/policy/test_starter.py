"""The starter set: what it allows, what it does not, and that its options do no more than they should."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.permissions.describe import describe
from dragoman.permissions.sensitive import Places
from dragoman.policy import starter
from dragoman.policy.examples import failed_examples
from dragoman.policy.policy import Policy
from dragoman.policy.rule import LocatedRule, PolicyRule
from dragoman.policy.starter import missing_starter_rules, starter_rules, starter_text, workspace_test_command

_RULES = starter_rules()
_POLICY = Policy([LocatedRule(rule, "starter.toml", number) for number, rule in enumerate(_RULES)])


def _is_allowed(line: str, workspace: Path) -> bool:
    (workspace / ".git").mkdir(exist_ok=True)
    places = Places.around((workspace,))
    action = describe(
        agent="claude", agent_name="Claude", places=places, kind="execute", input={"command": line}
    )
    return _POLICY.judge(action, places).decision == "allow" and action.sensitive is None


def test_every_rule_allows_and_has_examples_that_hold() -> None:
    for rule in _RULES:
        assert rule.decision == "allow"
        assert rule.examples
        assert rule.counterexamples
        assert not list(failed_examples(rule))
        # It lists what is allowed. Otherwise a new option of a program would be allowed, too.
        assert (
            rule.command is None or rule.options is not None or rule.args is None or rule.command == ("echo",)
        )


def test_rules_that_are_there_are_not_missing() -> None:
    assert missing_starter_rules(()) == starter_text()
    assert missing_starter_rules(_RULES) == ""
    first = missing_starter_rules(_RULES[1:])
    assert starter_text().startswith(f"{first}\n[[policy]]\n")
    assert first.startswith("# Reading version control.")


def test_a_rule_is_found_however_its_table_is_laid_out(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = [
        '# One,\n# in two lines.\n[[policy]]\ndecision = "allow"\n\n# Why.\ncommand = [\n\n    "a",\n]\n',
        '# Two.\n[[policy]]\ndecision = "allow"\ncommand = ["b"]\n',
        '[[policy]]\ndecision = "allow"\ncommand = ["c"]\n',
    ]
    monkeypatch.setattr(starter, "starter_text", lambda: f"{tables[0]}{tables[1]}\n\n\n{tables[2]}")
    rules = tuple(PolicyRule(decision="allow", command=(program,)) for program in "abc")
    assert missing_starter_rules(()) == "\n".join(tables)
    for place, table in enumerate(tables):
        assert missing_starter_rules((*rules[:place], *rules[place + 1 :])) == table


@pytest.mark.parametrize(
    "line",
    [
        "git status",
        "git status --porcelain -b",
        "git log --oneline -20 -- src",
        "git log --since='2 weeks ago' --author=me --stat",
        "git log --format='%h %s' | head -5",
        "git diff HEAD~1 --stat && git status -s",
        "git diff main...HEAD -- src/a.py | grep -n TODO | wc -l",
        "git show HEAD:README.md",
        "git branch -vv",
        "git blame -L 3,9 README.md",
        "cd src && ls -la && cat a.py",
        "ls -la 2>/dev/null || echo none",
        "find . -name '*.py' -not -path './.venv/*' | head -20",
        "find . \\( -name a -o -name b \\) -print",
        "git grep -n TODO -- src",
        "cd src && find . -name '*.py'",
        "rg -n -t py TODO src",
        "head -n 40 src/a.py; tail -5 src/a.py",
        "timeout 5 git log -3",
        "bash -c 'git status'",
        "pwd",
    ],
)
def test_ordinary_lines_are_allowed(line: str, tmp_path: Path) -> None:
    assert _is_allowed(line, tmp_path)


@pytest.mark.parametrize(
    "line",
    [
        "git log --output=x",
        "git log --outp=x",
        "git diff --ext-diff",
        "git log --textconv",
        "git log --show-signature",
        "git log --format=%GG",
        "git log --pretty='format:%-GG'",
        "git log '--pretty=format:% GG'",
        "git -c core.pager=x log",
        "git --git-dir=x log",
        "git -C .. log",
        "git -p log",
        "git diff --no-index a b",
        "git diff a /etc/passwd",
        "git blame --contents=/etc/passwd a",
        "git grep -Ovi x",
        "git branch new",
        "git branch -D main",
        "git tag v1",
        "git remote add a b",
        "git remote update",
        "git config --list",
        "git cat-file --textconv HEAD:a",
        "GIT_PAGER=x git log",
        "GIT_EXTERNAL_DIFF=x git diff",
        "PATH=. ls",
        "LD_PRELOAD=./x ls",
        "ls /",
        "ls ~",
        "cat ../x",
        "cat .env",
        "cat .git/config",
        "cat a > b",
        "tail -f a",
        "cd .. && ls",
        "cd / && ls",
        "cd && ls",
        "find . -delete",
        "find . -exec rm {} +",
        "find . -name x -execdir sh -c x \\;",
        "find . -fprint x",
        "find . -fprintf x y",
        "find . -fls x",
        "find / -name x",
        "find -L . -name x",
        "find . -name x | xargs rm",
        "grep -f /etc/passwd a",
        "grep -rnf a .",
        "grep -R x .",
        # They would read .env without naming it.
        "grep -rn KEY .",
        "rg -g '*' KEY",
        "rg --hidden KEY",
        "git grep --untracked KEY",
        "grep x /etc/passwd",
        "rg --pre=./x y",
        "rg --pre ./x y",
        "rg --hostname-bin=./x y",
        "rg -z y",
        "rg -L y",
        "rg -nz y",
        "rg --search-zip y",
        "tree -o x",
        "tree -R -L 1",
        "file -C -m x",
        "file -z x",
        "du --files0-from=x",
        "wc --files0-from=/etc/passwd",
        "stat /etc/passwd",
        "echo x > y",
        "echo $(rm x)",
        "echo `rm x`",
        "ls; rm x",
        "ls & rm x",
        "ls | tee x",
        "./ls",
        "make test",
    ],
)
def test_what_writes_runs_or_reads_elsewhere_is_not_allowed(line: str, tmp_path: Path) -> None:
    assert not _is_allowed(line, tmp_path)


# The options of the starter set, with the real programs.

_STUB = "#!/bin/sh\necho called >> {log}\n"


class _Repository:
    """A repository whose commit has a signature, and whose settings name stubs for all that git may run on request."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "repository"
        self.folder.mkdir()
        self.log = folder / "called"
        stub = folder / "stub"
        stub.write_text(_STUB.format(log=self.log))
        stub.chmod(0o755)
        names = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a"}
        self._env = {
            **names,
            "GIT_COMMITTER_EMAIL": "a@b",
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        self.git("init", "-q", "-b", "main", "--template=")
        for key in ("gpg.program", "core.pager", "core.editor"):
            self.git("config", key, str(stub))
        # `git diff` runs the drivers of the user's own settings by itself. Others do so with --ext-diff only.
        self.driver = f"diff.custom.command={stub}"
        (self.folder / "a.txt").write_text("one\ntwo\n")
        (self.folder / ".gitattributes").write_text("*.txt diff=custom\n")
        self.git("add", ".")
        self.git("commit", "-qm", "First")
        self._sign()
        (self.folder / "a.txt").write_text("one\nthree\n")
        self.log.unlink(missing_ok=True)

    def _sign(self) -> None:
        head, _, message = self.git("cat-file", "commit", "HEAD").partition("\n\n")
        signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n iQ\n -----END PGP SIGNATURE-----"
        signed = self.git(
            "hash-object", "-t", "commit", "-w", "--stdin", given=f"{head}\n{signature}\n\n{message}"
        )
        self.git("reset", "-q", "--hard", signed.strip())

    def git(self, *arguments: str, given: str = "") -> str:
        return self.run("git", *arguments, given=given).stdout

    def run(self, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words,
            cwd=self.folder,
            env=self._env,
            input=given,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=20,
            check=False,
        )

    def effects(self, *words: str) -> set[str]:
        """Files that are new or changed, and "called" if one of the stubs ran."""
        before = self._files()
        self.run(*words)
        after = self._files()
        changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
        if self.log.exists():
            self.log.unlink()
            changed.add("called")
        return changed

    def _files(self) -> dict[str, bytes]:
        # Git refreshes what it knows about files.
        skipped = self.folder / ".git" / "index"
        files = (each for each in self.folder.rglob("*") if each.is_file() and each != skipped)
        return {str(each.relative_to(self.folder)): each.read_bytes() for each in files}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> _Repository:
    return _Repository(tmp_path_factory.mktemp("starter"))


def _option_words(option: str) -> Iterator[tuple[str, ...]]:
    """An option as it may be written, without a value and with one that could be a file."""
    spelled = option.replace("[0-9]", "1").replace("*", "").replace("[at]", "a")
    yield (spelled,)
    yield (spelled, "value")
    yield (f"{spelled}=value",) if spelled.startswith("--") else (f"{spelled}value",)


def _cases() -> Iterator[tuple[str, ...]]:
    for rule in _RULES:
        match rule.command:
            case ("git", subcommand, *_):
                names = (subcommand,) if isinstance(subcommand, str) else subcommand
                yield from (("git", name) for name in names)
            case ("find",) | (("grep", *_),):
                yield ("find",) if rule.command == ("find",) else ("grep",)
            case _:
                pass


def _options_of(words: tuple[str, ...]) -> tuple[str, ...]:
    for rule in _RULES:
        command = [each if isinstance(each, tuple) else (each,) for each in rule.command or ()]
        if command and all(word in each for word, each in zip(words, command, strict=False)):
            return rule.options or ()
    raise AssertionError(words)


def test_the_probe_sees_what_git_writes_and_runs(repository: _Repository) -> None:
    assert repository.effects("git", "log", "--output=written") == {"written"}
    assert repository.effects("git", "log", "--show-signature") == {"called"}
    assert repository.effects("git", "log", "--format=%GG") == {"called"}
    assert repository.effects("git", "-c", repository.driver, "log", "-p", "--ext-diff") == {"called"}
    assert repository.effects("git", "branch", "value") != set()
    assert repository.effects("find", ".", "-fprint", "found") == {"found"}


@pytest.mark.long
@pytest.mark.parametrize("words", sorted(set(_cases())), ids=" ".join)
def test_no_option_writes_a_file_or_runs_a_program(words: tuple[str, ...], repository: _Repository) -> None:
    for option in _options_of(words):
        for written in _option_words(option):
            rest = {"find": (".", *written), "grep": ("-r", *written, "t", ".")}.get(words[0], written)
            line = (*words, *rest)
            places = Places.around((repository.folder,))
            action = describe(
                agent="a", agent_name="a", places=places, kind="execute", input={"argv": list(line)}
            )
            if _POLICY.judge(action, places).decision == "allow":
                effects = repository.effects(*line)
                assert not effects, line


@pytest.mark.parametrize(
    ("name", "text", "command"),
    [
        ("Makefile", "all:\n\ttrue\n\ntest: all\n\ttrue\n", ("make", "test")),
        ("Makefile", "tests:\n\ttrue\ntest := 1\n", None),
        ("package.json", '{"scripts": {"test": "jest"}}', ("npm", "test")),
        ("package.json", '{"scripts": {"build": "x"}}', None),
        ("package.json", "{", None),
        ("pyproject.toml", "[tool.pytest.ini_options]\n", ("pytest",)),
        ("Cargo.toml", "", ("cargo", "test")),
        ("go.mod", "", ("go", "test", "./...")),
        ("README.md", "", None),
    ],
)
def test_the_test_command_of_a_folder(
    name: str, text: str, command: tuple[str, ...] | None, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    assert workspace_test_command(tmp_path) == command
