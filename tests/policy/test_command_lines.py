"""Ways to hide a command in a command line: what rules say about each.

`none`: no rule decides, so a person is asked. `doubt`: the rule against `rm` may be about it, so no other rule and no
setting allows it.
"""

from __future__ import annotations

import shlex

import pytest

from policy.judging import allow, ask, deny, judgement, verdict

_RULES = (
    allow(
        command=("git", ("status", "log", "diff")),
        args="any",
        without=("--output*", "-c", "--ext-diff", "-O*"),
    ),
    allow(command=("ls",), args="any", options=("-l", "-a", "--all")),
    allow(command=("cat",), args="any", options=()),
    allow(command=("echo",), args="any"),
    allow(command=("printf",), args="any"),
    allow(command=("find",), args="any", without=("-delete", "-exec*", "-ok*", "-f*")),
    allow(command=("make", "test")),
    allow(command=("cd",), args="any", options=(), paths=("**",)),
    allow(command=("tee",), args="any", paths=("build/**",)),
    ask(command=("git", "push"), args="any"),
    deny(command=("rm",), args="any"),
)

_OPERATORS = [
    ("git status; git log", "allow", "each part is allowed"),
    ("git status && ls | cat || echo x", "allow", "each part is allowed"),
    ("{ git status; ls; }", "allow", "each part is allowed"),
    ("(git status; ls)", "allow", "each part is allowed"),
    ("! git status", "allow", "only the exit status changes"),
    ("git status &", "allow", "the background changes nothing"),
    ("git status; rm x", "deny", "one part is denied"),
    ("git status || rm x", "deny", "one part is denied"),
    ("git status\nrm x", "deny", "a new line separates"),
    ("git status & rm x", "deny", "`&` separates"),
    ("git status &! rm x", "deny", "`&` separates"),
    ("(git status; rm x)", "deny", "one part is denied"),
    ("git status | rm x", "deny", "one part is denied"),
    ("git status |& rm x", "deny", "one part is denied"),
    ("git status && git push", "ask", "one part is asked about"),
    ("git status; make install", "none", "no rule is about one part"),
    ("if git status; then ls; fi", "doubt", "statements with reserved words are not read"),
    ("while ls; do rm x; done", "deny", "what is found in it counts"),
    ("{}", "doubt", "an empty group for zsh, a program for bash"),
    ("{git status;}", "doubt", "a group for zsh, a program `{git` for bash"),
    ("!'git' status", "doubt", "a program `!git` for bash"),
]

_XARGS = [
    ("git log | xargs cat", "none", "what xargs adds may be an option"),
    ("git log | xargs echo", "none", "the rule does not say that arguments may be computed"),
    ("git log | xargs rm", "deny", ""),
    ("git log | xargs -n1 -I{} rm {}", "deny", ""),
    ("git log | xargs -0 -P 2 timeout 5 rm", "deny", "two wrappers"),
    ("git log | xargs", "none", "it runs echo with unknown arguments"),
    ("git log | xargs xargs", "doubt", "the program comes from the input"),
    ("git log | xargs env", "doubt", "the program comes from the input"),
    ("git log | xargs -I x x y", "doubt", "the program comes from the input"),
    ("git log | xargs sh -c", "doubt", "the script comes from the input"),
    ("git log | xargs -I x sh -c 'x'", "doubt", "the script comes from the input"),
    ("git log | xargs -a list cat", "doubt", "an option that is not known"),
]

_ASSIGNMENTS = [
    ("PATH=. git status", "none", "no rule names the variable"),
    ("GIT_PAGER=evil git log", "none", "no rule names the variable"),
    ("LD_PRELOAD=./x.so git log", "none", "no rule names the variable"),
    ("env GIT_PAGER=evil git log", "none", "no rule names the variable"),
    ("X=1 bash -c 'git log'", "none", "what bash runs has the variable too"),
    ("PATH=.; git status", "doubt", "it holds for the rest of the line"),
    ("export PATH=.; git status", "doubt", "it holds for the rest of the line"),
    ("A=$(rm x) git status", "deny", ""),
    ("A[$(rm x)]=1 git status", "deny", ""),
    ("A=(x) git status", "doubt", "an array"),
    ("A=\\  make git status", "doubt", "the value is a blank, and make runs"),
    ("PATH=. :; git status", "doubt", "dash keeps it"),
]

_WRAPPERS = [
    ("env git status", "allow", "what it runs is allowed"),
    ("/usr/bin/env git status", "allow", "the same program by its path"),
    ("./env git status", "none", "another program"),
    ("env -i git status", "doubt", "options of env are not read"),
    ('env -S "rm x"', "doubt", "options of env are not read"),
    ("env", "none", "it prints the environment, and no rule is about that"),
    ("timeout 5 git log", "allow", ""),
    ("timeout -k 1 5 git log", "allow", ""),
    ("timeout -k 1 5 rm x", "deny", ""),
    ("timeout 1 >/dev/null rm x", "doubt", "words behind a redirect belong to the command"),
    ("timeout $x rm y", "doubt", "a computed duration may be several words"),
    ("nice -n 5 nohup stdbuf -oL rm x", "deny", "one in the other"),
    ("nohup rm x &", "deny", ""),
    ("time git log", "allow", ""),
    ("time -o x git log", "doubt", "time writes a file"),
    ("time A=1 git log", "doubt", "behind bash's keyword this is an assignment"),
    ("time ! rm x", "doubt", "behind bash's keyword this is one too"),
    ("command rm x", "deny", ""),
    ("- rm x", "doubt", "zsh runs rm"),
    ("noglob rm x", "doubt", "zsh runs rm"),
    ("exec rm x", "doubt", "it replaces the shell"),
    ("sudo -u root rm x", "doubt", "an unknown wrapper with the denied program"),
    ("sudo git status", "none", "no rule is about sudo"),
    ("busybox rm x", "doubt", ""),
    ("unknown rm x", "doubt", "any program may be a wrapper"),
    ("unknown git status", "none", ""),
    ("find . -name x", "allow", ""),
    ("find . -exec rm {} +", "doubt", ""),
    ("find . -exec cat {} +", "none", "the rule forbids -exec"),
    ("find . -delete", "none", "the rule forbids -delete"),
]

_SHELLS = [
    ("bash -c 'git status'", "allow", ""),
    ("bash -lc 'git status; ls'", "allow", ""),
    ("bash -c 'git status' rm x", "allow", "what follows is $0 and $1, and the script uses neither"),
    ("bash -c '$0 x' rm", "doubt", "the program is computed"),
    ("bash -c 'bash -c \"rm x\"'", "deny", ""),
    ("""bash -c 'sh -c "dash -c \\"cat x\\""'""", "allow", "three shells"),
    ("""bash -c 'sh -c "dash -c \\"rm x\\""'""", "deny", "three shells"),
    ("bash rm -c 'git status'", "doubt", "bash runs the file rm"),
    ("bash -- -c 'rm x'", "doubt", ""),
    ('bash -c "$x"', "doubt", "the script is computed"),
    ("bash", "doubt", "it reads commands"),
    ("git log | bash", "doubt", "it reads commands"),
    ("bash -s < x", "doubt", "it reads commands"),
    ("bash -c", "doubt", "it fails, or reads commands"),
    ("bash -c ''", "doubt", "no rule is about it"),
    ("bash -c '' > x", "doubt", "it empties a file"),
    ("BASH_ENV=x bash -c ' '", "doubt", "bash runs that file first"),
    ("ksh -c 'git status'", "none", "a shell that is not compared with the analysis"),
    ("bash script", "none", "no rule is about it"),
    ("BASH_ENV=x bash -c 'git status'", "none", "bash runs that file first"),
    ("eval git status", "doubt", ""),
    ("eval 'rm x'", "doubt", ""),
    ("source script", "doubt", ""),
    (". ./script", "doubt", ""),
    ("bash <<E\nrm x\nE", "doubt", "a here-document"),
    ("cat <<E\n$(rm x)\nE", "deny", "a here-document that runs something"),
    ("cat <<< x", "doubt", "dash knows no here-string"),
    ("python3 -c 'os.system(\"rm x\")'", "doubt", "the denied program stands in a script"),
    ("python3 -c 'pass'", "none", "no rule is about python3"),
]

_QUOTING = [
    ("git 'log' \"--oneline\"", "allow", "quotes are removed"),
    ("git lo\\g", "allow", "so is a backslash"),
    ("r'm' x", "deny", ""),
    ("\\rm x", "deny", ""),
    ('"r"m x', "deny", ""),
    ('r""m x', "deny", ""),
    ("$'rm' x", "doubt", "dash reads it in another way"),
    ('$"rm" x', "doubt", "bash translates it"),
    ("r\\\nm x", "doubt", "a word that goes on in the next line"),
    ("/bin/rm x", "deny", "by its path"),
    ("RM x", "deny", "some file systems do not distinguish upper and lower case"),
    ("cat 'a\\' 'b'", "doubt", "in fish the quote goes on"),
    ("git log \\\n --oneline", "allow", "a line that goes on between words"),
    ("echo 'rm x'", "allow", "one argument, which is not the program"),
    ("echo '$(rm x)'", "allow", "single quotes"),
    ('echo "\\$(rm x)"', "allow", "a backslash"),
    ('echo "$(rm x)"', "deny", "double quotes compute"),
]

_EXPANSIONS = [
    ("ls src/*", "allow", "no option begins with src/"),
    ("ls *", "none", "a file may be called -R"),
    ("r? x", "doubt", "the shell computes the program"),
    ("{rm,x}", "doubt", ""),
    ("ls {-l,-R}", "none", "it becomes options"),
    ("ls ~", "allow", ""),
    ("ls ~root", "none", "another user's home"),
    ("ls ''~", "none", "a home for zsh, and none for bash"),
    ("ls $x", "none", ""),
    ("$x y", "doubt", ""),
    ("ls $(rm x)", "deny", ""),
    ("ls `rm x`", "deny", ""),
    ('echo "$(git push)"', "ask", ""),
    ("ls $((1+1))", "doubt", "arithmetic runs substitutions"),
    ("ls ${x:-$(rm y)}", "deny", ""),
    ("ls <(rm x)", "deny", ""),
    ("=rm x", "doubt", "zsh runs rm"),
    ("ls =rm", "none", "zsh makes a path of it"),
    ("ls *(e:'rm x':)", "doubt", "zsh runs what stands in it"),
]

_DEFINITIONS = [
    ("f() { rm x; }; f", "deny", ""),
    ("git() { evil; }; git status", "doubt", "git is another command now"),
    ("alias git=evil; git status", "doubt", ""),
    ("trap 'rm x' EXIT", "doubt", ""),
    ("coproc rm x", "doubt", ""),
    ("hash -p ./evil git; git status", "doubt", ""),
    ("enable -n echo; git status", "doubt", ""),
    ("set -- rm x; git status", "doubt", ""),
    ("jobs -x rm x", "doubt", "bash runs rm"),
    ("printf '%s\\n' x", "allow", "text only"),
    ("printf -v PATH .; git status", "doubt", "it sets PATH"),
    ("printf '%s%n' x PATH; git status", "doubt", "it sets PATH"),
    ("printf %d 'path[$(rm x)]'", "doubt", "zsh computes it"),
    ("exit 'path[$(rm x)]'", "doubt", "zsh computes it"),
]

_REDIRECTS = [
    ("git log > /dev/null 2>&1", "allow", "no file"),
    ("git log >&2", "allow", "no file"),
    ("git log 2>&-", "allow", "no file"),
    ("git log > x", "none", ""),
    ("git log >> x", "none", ""),
    ("git log &> x", "none", ""),
    ("git log >| x", "none", ""),
    ("git log 2> x", "none", ""),
    ("cat < x", "none", ""),
    ("{ git log; } > x", "none", "it holds for all in the group"),
    ("bash -c 'git log' > x", "none", "it holds for what bash runs"),
    ("bash -c 'git log > x'", "none", ""),
    ("> x", "doubt", "zsh runs cat"),
    ("git log >! x", "doubt", "an operator of zsh"),
    ("git log 10> x", "doubt", "an argument for dash"),
    ("echo -1>x", "doubt", "an argument, and no descriptor"),
    ("git log > x rm", "doubt", "words behind a redirect"),
    ("echo x > /dev/tcp/127.0.0.1/9", "doubt", "bash connects"),
    ("git log > >(rm x)", "deny", ""),
    ("git log >&x", "doubt", "bash expands the name twice"),
    ("git log >&'$(rm x)'", "doubt", "bash expands the name twice"),
    ("time > x", "doubt", "zsh runs cat"),
    ("git log | tee build/x", "allow", "the rule names the folder"),
    ("git log | tee x", "none", ""),
    ("git log | tee build/../x", "none", "`..` leads out of it"),
]

_CHARACTERS = [
    ("git log # rm x", "doubt", "an interactive zsh knows no comments"),
    ("git log # x\nrm y", "deny", ""),
    ("!rm", "doubt", "an earlier command"),
    ("git log \x1b[2K", "doubt", "a control character"),
    ("git log\rrm x", "doubt", "a terminal hides what stands before"),
    ("git log;\u00a0rm x", "doubt", "a blank that is none"),
    ("git\u200b log", "doubt", "a character that nobody sees"),
    ("git log\x00", "doubt", ""),
    ("git log '", "doubt", "an error"),
    ("git log (", "doubt", "an error"),
    ("git log ;; ls", "doubt", "an error"),
    ("git log\\", "doubt", "an error"),
    ("echo " + "x" * 10_000, "doubt", "longer than a person reads"),
]

_OPTIONS = [
    ("git log --oneline -n 5", "allow", ""),
    ("git log --output=x", "none", "forbidden"),
    ("git log --output x", "none", "forbidden"),
    ("git log --outp=x", "none", "a beginning of a forbidden option"),
    ("git log --o=x", "none", "a beginning of a forbidden option"),
    ("git log -pc", "none", "a cluster with a forbidden letter"),
    ("git diff -Oevil", "none", "forbidden"),
    ("git -c core.pager=evil log", "doubt", "another command for the rule"),
    ("git --exec-path=. log", "doubt", "another command for the rule"),
    ("git -C . push", "doubt", "an option may stand before the command that is asked about"),
    ("ls -la --all", "allow", "listed, also as a cluster"),
    ("ls -lR", "none", "a cluster with a letter that is not listed"),
    ("ls --al", "none", "a beginning is not listed"),
    ("ls --recursive", "none", "not listed"),
    ("cat -n x", "none", "no option is listed"),
    ("cat -- -n", "none", "not even behind `--`"),
    ("make test", "allow", "exactly this command"),
    ("make test SHELL=./evil", "none", "more than this command"),
    ("make -f evil test", "none", "another command"),
    ("make", "none", "less than this command"),
]

_FOLDERS = [
    ("cd src && git status", "allow", ""),
    ("cd .. && git status", "none", "outside the workspace"),
    ("cd src; cd ../.. ; git status", "none", "outside the workspace"),
    ("cd ~ && git status", "none", "outside the workspace"),
    ("cd $x && git status", "none", "somewhere"),
    ("cd - && git status", "none", "somewhere"),
    ("cd ../other &>/dev/null && git status", "none", "outside the workspace"),
    ("CDPATH=/ cd src && git status", "none", "somewhere"),
    ("env cd .. ; git status", "doubt", "a program that may not be there"),
    ("pushd .. ; git status", "doubt", ""),
]

_CASES = [
    case
    for table in (
        _OPERATORS, _XARGS, _ASSIGNMENTS, _WRAPPERS, _SHELLS, _QUOTING, _EXPANSIONS, _DEFINITIONS, _REDIRECTS,
        _CHARACTERS, _OPTIONS, _FOLDERS,
    )
    for case in table
]  # fmt: skip


@pytest.mark.parametrize(("line", "expected", "why"), _CASES)
def test_d6_a_command_that_hides_is_found_or_asked_about(line: str, expected: str, why: str) -> None:
    assert verdict(line, *_RULES) == expected, (why, judgement(line, *_RULES))


@pytest.mark.parametrize("line", [line for line, expected, _ in _CASES if expected == "allow"])
def test_d6_an_allowed_line_is_allowed_in_a_wrapper_and_in_a_shell_and_with_another(line: str) -> None:
    assert verdict(f"bash -c {shlex.quote(line)}", *_RULES) == "allow"
    assert verdict(f"git status && {line}", *_RULES) == "allow"
    assert verdict(["timeout", "5", "sh", "-c", line], *_RULES) == "allow"
    assert verdict(f"{line}\nrm x", *_RULES) == "deny"


@pytest.mark.parametrize("line", [line for line, expected, _ in _CASES if expected != "allow"])
def test_d6_no_other_line_is_allowed_in_any_wrapper(line: str) -> None:
    if "\0" not in line:
        assert verdict(f"bash -c {shlex.quote(line)}", *_RULES) != "allow"
    assert verdict(["sh", "-c", line], *_RULES) != "allow"
    assert verdict(f"git status; {line}", *_RULES) != "allow"


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["git", "log", "*", "$x", "; rm x"], "allow"),
        (["echo", "rm", "x"], "doubt"),
        (["rm", "x"], "deny"),
        (["timeout", "5", "rm", "x"], "deny"),
        (["bash", "-c", "git log; rm x"], "deny"),
        (["env", "A=1", "git", "log"], "none"),
        (["cd", ".."], "none"),
        (["eval", "git log"], "doubt"),
        (["git", "log", "--output=x"], "none"),
    ],
)
def test_d6_an_argument_vector_is_used_as_such(argv: list[str], expected: str) -> None:
    assert verdict(argv, *_RULES) == expected


@pytest.mark.parametrize(
    "text",
    [
        "(" * 10_000, "$(" * 5_000, "'" * 10_000, '"$(' * 3_000, "`" * 10_000, "{ " * 5_000, "a" * 10_000, "a|" * 5_000,
        "<<E " * 2_500, "a=" * 5_000, "\\\n" * 5_000, "bash -c " * 1_250, "env " * 2_500, "$((" * 3_300, "case x in " * 1_000,
        "if a; then " * 900, "[[ " * 3_300, "${a" * 3_300, "x {a," * 2_000, "x " + "{a," * 3_300, "! " * 5_000, "ls;" * 3_300,
    ],
)  # fmt: skip
def test_d6_an_awkward_line_is_read_to_its_end_and_not_allowed(text: str) -> None:
    # bench/policy.py measures how long the slowest of them takes.
    assert verdict(text[:10_000], *_RULES) != "allow"
    assert verdict(text[:5_000], *_RULES) != "allow"
