"""The words that generated command lines are made of."""

from __future__ import annotations

from policy.shell_lab import LAB, stub_names

__all__ = [
    "AFTER_SCRIPT",
    "BLANKS",
    "BRACES",
    "COMPUTED",
    "GLOBS",
    "METACHARACTERS",
    "OPERATORS",
    "PIPED",
    "PROGRAMS",
    "SEPARATORS",
    "SHELLS",
    "TARGETS",
    "TEXTS",
    "TILDES",
    "VARIABLES",
    "WORDS",
    "WRAPPERS",
    "WRAPPER_WORDS",
]

PROGRAMS = (
    *stub_names(), "git", "git", "ls", "cat", "rm", "rm", "./evil", "sub/evil", "~/evil", f"{LAB}/bin/rm", "echo",
    "printf", "true", "false", "pwd", ":", "cd",
)  # fmt: skip
WORDS = (
    "link", "link/x", "sub/up", "sub/up/a.txt", "file-link", "link/../x",
    "status", "log", "diff", "test", "x", "a.txt", "sub/c.txt", "./a.txt", "-n", "-1", "-rf", "-la", "--oneline",
    "--output=x", "-c", "core.pager=evil", "--", "-", "+", "HEAD~1", "HEAD^", "a@b", "x=1", "1", "a:b", "%s", "a,b",
    "..", ".", "sub", "#x", "x#y", f"{LAB}/h/o/me/x", f"{LAB}/w/o/rk/a.txt", "-delete", "-exec", "SHELL=./evil", "ünï",
    "日本", "[", "]", "!", "if", "done", "in", "time", "rm", "evil", "+x", "a+=b", "name", "-name", "a{b", "a}b", "^x",
    "%1", "@{u}", "-u", "a\\\\b", "=", "a=~",
)  # fmt: skip
TEXTS = (
    "a b", "x", "", " ", "*", "it is", "a;b", "$HOME", "#", "a&b", "é", "-f", "a\nb", "a\tb", "!", "a|b", "~", "`x`",
)  # fmt: skip
GLOBS = (
    "*", "*.txt", "sub/*", "?.txt", "[ab].txt", "s*/c*", "*x*", ".*", "**", "**/c.txt", "-*", "[!a]*", "[a-z]",
    "x[1]", "~/*",
)  # fmt: skip
BRACES = (
    "{a,b}", "x{1..3}", "{a,b}.txt", "{}", "{a}", "a{,b}", "{a,b}{c,d}", "{a..}", "'{a,b}'", "\\{a,b}", "{a,'b c'}",
)  # fmt: skip
TILDES = (
    "~", "~/x", "'~'", "\\~", "~x", "~+", "~-", "x~", "a=~/x", "--x=~/y", "~/a b", '"~/x"', "~/'x y'", "a:~",
)  # fmt: skip
COMPUTED = (
    "$A", '"$A"', "${A}", '"${A}/x"', "$HOME/x", "$(git status)", '"$(cat a.txt)"', "`ls`", "$((1+2))", "$1", '"$@"',
    "$#", "$?", "${A:-x}", "${A:=x}", "${#A}", "${A%x}", "$A$B", "x$A", "-$A", "$(cd sub && ls)", "$(rm x | cat)",
    "$(<a.txt)", "<(ls)", "$(echo $(ls))", '"$(ls "$(cat)")"', "$[1+1]", "${A[0]}", "${!A}", "$'a\\nb'", '$"x"',
    "${A/x/y}", "${A@P}", '"`ls`"', "$-",
)  # fmt: skip
VARIABLES = (
    "A=1", "B=x", "A=", "GIT_PAGER=evil", "PAGER=cat", "A='a b'", "A=$B", "PATH=.", "PATH=./bin:$PATH",
    "LD_PRELOAD=x.so", "BASH_ENV=script.sh", "HOME=sub", "A=~", "A=$(ls)", "A+=1", "A[0]=1", "A=(1 2)", "IFS=x",
    "A=*", "A=a:~/b", "CDPATH=sub", "ENV=script.sh", "FPATH=.", "PS4=x", "A={a,b}",
)  # fmt: skip
TARGETS = (
    "/dev/null", "x", "out.txt", "sub/y", "link/x", "sub/up/x", "file-link",
    "/dev/null", "x", "out.txt", "sub/y", "'a b'", '"x"', f"{LAB}/h/o/me/x", "~/x", "&1", "&2", "&-", "$A", "*.txt",
    "x{a,b}", "./x", "-", "1", "&x", "../x", ".env", "$(ls)", "r'm'", "a\\ b", "/dev/stdout",
)  # fmt: skip
OPERATORS = (
    ">", ">", ">>", "<", "2>", "2>>", "1>", ">|", "&>", "&>>", ">&", "2>&", "<&", "<>", "<<<", "3>", "{fd}>", ">!",
    "0<", "10>",
)  # fmt: skip
SEPARATORS = (
    "&&", "&&", "&&", ";", ";", "||", "|", "|", "|", "\n", "&", "|&", ";;", "\n\n", "; ;", "&!", "&|", ";&", "\r\n",
)  # fmt: skip
PIPED = (
    "|", "| xargs", "| xargs -n1", "| bash", "| sh", "| tee x |", "| tee", "| while read l; do", "|\n",
)  # fmt: skip
BLANKS = (
    " ", " ", " ", " ", " ", " ", " ", " ", "  ", "\t", " \\\n", "\\\n", "\xa0", "\r", "\x0b", "\x0c", "\u2003",
    "\u3000", "",
)  # fmt: skip
WRAPPERS = (
    "env", "env A=1", "env A=1 B='x y'", f"env -i PATH={LAB}/bin", "env --", "env -", "env A=$B", "env -u A",
    "env -C sub", "env -S", "env PATH=.", "env GIT_PAGER=x", "/usr/bin/env", "timeout 5", "timeout 5s",
    "timeout -k 1 5", "timeout -k1 5", "timeout -s KILL 5", "timeout --signal=KILL 5", "timeout --kill-after=1 0.5m",
    "timeout --foreground 5", "timeout --preserve-status 5", "timeout -v 5", "timeout -sKILL 5", "timeout -- 5",
    "timeout 5 --", "timeout --k 1 5", "timeout $A", "timeout -k 1", "timeout", "nice", "nice -n 5", "nice -n5",
    "nice -5", "nice --adjustment=5", "nice -n -- 5", "nice --", "nice -n", "nice --adj 5", "nice --5", "nohup",
    "nohup --", "stdbuf -oL", "stdbuf -o L", "stdbuf -i0 -o0 -eL", "stdbuf --output=L", "stdbuf -o0", "stdbuf",
    "time", "time -p", "time --", "time -f x", "time -o x", "command", "command --", "command -v", "command -V",
    "builtin", "exec", "exec -a x", "exec --", "sudo", "sudo -u x", "busybox", "setsid", "xargs", "xargs -n1",
    "xargs -n 1", "xargs -0", "xargs -r", "xargs -I{}", "xargs -I {}", "xargs -I % -n1", "xargs -P2 -n 1",
    "xargs -a a.txt", "xargs --arg-file=a.txt", "xargs -d '\\n'", "xargs -L1", "xargs -l", "xargs -i", "xargs -s 100",
    "xargs -E x", "xargs -e", "xargs --max-args=1", "xargs --", "xargs -t", "xargs -rt", "xargs -rn1",
    "xargs --replace", "xargs --repl", "xargs -0r -n 2", "xargs -I rm", "xargs -I -n", "xargs -I x -I y", "xargs -I x -n 2", "xargs -Ix -L1", "xargs -L 1 -I x", "xargs -I {} --max-args=1",
    "xargs -n 1 -I a", "xargs -P 0", "xargs -o", "xargs -x", "noglob", "nocorrect", "-", "repeat 2", "eval", "!",
    "coproc", "time !", "! time", "then", "do", "A=1 env", "xargs env", "xargs timeout 5", "xargs bash -c",
    "nohup nice -n 5", "timeout 5 env A=1", "env timeout 5", "xargs -n1 env A=1", "time nice", "nice time",
    "time time", "exec env",
)  # fmt: skip
SHELLS = (
    "bash -c", "sh -c", "dash -c", "zsh -c", "bash -lc", "bash -ec", "bash -euxc", "bash -x -c", "bash -e -u -c",
    "bash -ce", "bash -c -e", "bash -c --", "bash --norc -c", "bash +x -c", "bash -o pipefail -c", "bash -i -c",
    "bash -s -c", "bash -O extglob -c", "bash -cl", "sh -xc", "dash -ec", "bash rm -c", "bash -- -c", "bash - -c",
    "bash --login -c", "eval", "env bash -c", "timeout 5 bash -c", "xargs bash -c", "bash script.sh", "sh evil",
    "source", ".", "bash -ec -c", "bash -c -c", "zsh -f -c", "bash --rcfile evil -c", "bash --init-file evil -ic",
    "bash", "sh -", "bash -n -c", "bash -r -c", "trap", "python3 -c",
)  # fmt: skip
AFTER_SCRIPT = (
    "", "", "", "", " x", " a b", " -c", " 'rm y'", " $A", " *", " >x", " --", ' "$@"',
)  # fmt: skip
# What changes put into lines.
METACHARACTERS = (
    *"\\'\"`$&|;<>(){}[]*?!#~=%^@+,.:-/ \t\n\r\v\f", "\\\n", "\\'", "$(", "$((", "${", "$'", '$"', "<<", "<<<",
    "<<E\n", "<(", ">(", "&&", "||", ";;", "|&", "&>", ">&", "2>", ">>", ">|", "((", "))", "[[", "]]", " [ ", " ] ",
    "''", '""', "\\\\", "$$", "$_", "$-", "$A", "${A}", "\xa0", "\u2028", "\u3000", "\x85", "\ufeff", "\x01", "\x7f",
    "\x1b", "é", " # ", "#", " ! ", "!", " { ", " } ", " time ", " if ", " do ", " done ", " in ", " case ", " esac ",
    " then ", " fi ", " function ", " coproc ", " -- ", " -c ", " - ", " -", "=", "+=", "A=", " A=1 ", " rm ",
    " bash ", " env ", " eval ", " exec ", " cd ", " sub ", "\n\n", " \n ", ";\n", " &\n", "{a,b}", "{a", ",b}", "~/",
    "~", " ~", "*.txt", "[a", "a]", "0", "1", "9>", "{x}>", "()", "() ", " ;", "; ", "E\n", "\nE\n", "\n'", '\n"',
    "\\n", "\\x72", "\\\r\n", "\r\n", "\u2018", "\u2019", "\u201c", "\uff1b", "\uff5c", "\u200b", "\u202e", "²", "٣",
    "ª",
)  # fmt: skip
# Options of wrappers, and what may be taken for one or for its value.
WRAPPER_WORDS = {
    "timeout": ("-k", "-s", "-v", "--foreground", "--preserve-status", "--kill-after", "--signal", "--verbose",
        "--kill-after=1", "--signal=9", "-k1", "-s9", "-sKILL", "-vk1", "--fore", "--k=1", "--", "-", "5", "5s",
        "0.1m", "1e1", "+5", "-5", "5x", "0", ".5", "5.", "inf", "", " 5", "5 "),
    "nice": ("-n", "-5", "-n5", "--adjustment=5", "--adj=5", "--adjustment", "-n-5", "-n+5", "--5", "-10", "--", "-",
        "5", "-nn", "x", "", " 5", "-n 5"),
    "nohup": ("--", "-", "-x", "--help", "--version", "5"),
    "stdbuf": ("-o", "-oL", "-i0", "-e", "L", "0", "--output=L", "--output", "--out=L", "-oLi0", "-o0L", "-", "--",
        "-oL5", "-oMB", "1K", "-o1K"),
    "time": ("-p", "-f", "%e", "-o", "x", "-a", "-v", "--", "-", "--portability", "-pv", "-q", "--quiet", "-V", "-h"),
    "env": ("A=1", "B=", "=x", "A", "-", "-u", "-i", "--", "-S", "A=1=2", "1A=2", "A-B=1", "_=1", "A=a b", "A=\n"),
    "xargs": ("-n", "1", "-n1", "-I", "{}", "-I{}", "-0", "-r", "-t", "-x", "-P", "2", "-P2", "-L", "-L1", "-l",
        "-l1", "-i", "-i{}", "-d", "f", "-df", "-E", "rm", "-e", "-erm", "-s", "1000", "-a", "a.txt", "--max-args=1",
        "--max-args", "--null", "--replace", "--replace=x", "--", "-", "-rt", "-0r", "-n1r", "-rn1",
        "--no-run-if-empty", "--verbose", "--exit", "--delimiter=f", "x", "-p", "-o", "--max-procs=2",
        "--max-lines=1", "--max-lines", "--eof", "--eof=x", ""),
    "bash": ("-c", "-e", "-x", "-l", "-u", "-ec", "-xc", "-lc", "-ce", "-euxc", "-o", "pipefail", "+e", "+x", "--",
        "-", "-s", "-i", "--norc", "-n", "-r", "-O", "-ecx", "-cc", "ls", "evil", "", "ls x"),
    "sh": ("-c", "-e", "-x", "-ec", "-ce", "--", "-", "-s", "ls", "evil", "-l", "-lc", "-uc"),
    "zsh": ("-c", "-f", "-e", "-x", "-fc", "-ec", "--", "-", "-s", "ls", "evil", "-l", "-uc", "-o", "-b", "-bc",
        "+c", "-xc", "-lc"),
    "dash": ("-c", "-e", "-x", "-ec", "-ce", "--", "-", "-s", "ls", "evil", "-uc", "-l", "-lc"),
    "command": ("-v", "-V", "--", "-p", "-"),
}  # fmt: skip
