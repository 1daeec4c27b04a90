"""A configuration file is taken whole, or refused with everything that is wrong with it and where."""

import tomllib
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given, settings, strategies as st

from dragoman.config import BUILTIN_MODELS, Config, ConfigError, Problem, ScriptModel, explain, load, quoted
from dragoman.config.loading import MAX_FILE_BYTES
from dragoman.config.schema import (
    AcpModel,
    ConsoleConfig,
    ConversationConfig,
    JournalConfig,
    KeyConfig,
    Loop,
    ResponsesModel,
    Serve,
    Tables,
    Tools,
)

# As in the documentation of the interface, with every key there is.
_COMPLETE = """\
[models.claude]
kind = "acp"
agent = "claude"
command = ["npx", "-y", "@agentclientprotocol/claude-agent-acp"]
name = "Claude Code"
env = { ANTHROPIC_API_KEY = "$ANTHROPIC_API_KEY" }
env_inherit = true
cwd = "."
mode = "default"
options = { model = "opus", fast = true, effort = 3, heat = 0.5 }
fs = false
permission = "ask"
reasoning = "thinking"
reasoning_fallback = "text"
max_input_tokens = 1000000
max_output_tokens = 64000

[models.gateway]
kind = "responses"
base_url = "http://127.0.0.1:8000/v1"
model = "some/model"
api_key = "$GATEWAY_KEY"

[models.tape]
kind = "script"
path = "demo.jsonl"

[conversation]
idle_minutes = 30
human_minutes = 240
cancel_grace_seconds = 10
gather_milliseconds = 150
retry_seconds = 10
replay_tokens = 100000

[journal]
content = "full"
keep_days = 30

[tools]
declarations = ["tools.json"]
auto_approve = false
eligible = { run_command = false }
urls = { "https://docs.example/*" = true }
limit = 128
virtual_threshold = 128

[loop]
turns = 50
on_denial = "skip-rest"
deadline_minutes = 240

[serve]
host = "127.0.0.1"
port = 8427
api_keys = ["$DRAGOMAN_KEY"]

[console]
enabled = true
decide_minutes = 60
decide_seconds = 55
webhook_content = false

[keys.alice]
key = "$ALICE_KEY"
role = "admin"
models = ["claude", "demo"]
workspaces = ["src", "/srv"]
"""


def _loaded(tmp_path: Path, text: str) -> Config:
    file = tmp_path / "dragoman.toml"
    file.write_text(text, "utf-8")
    return load(file)


def _problems(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        _loaded(tmp_path, text)
    return [str(problem).removeprefix(f"{tmp_path}/") for problem in caught.value.problems]


def test_without_a_file_everything_is_as_the_interface_says() -> None:
    config = load(None)
    assert config == Config()
    assert config.models == BUILTIN_MODELS
    assert config.default_model == "demo"
    assert config.conversation == ConversationConfig(
        idle_minutes=30,
        human_minutes=240,
        cancel_grace_seconds=10,
        gather_milliseconds=150,
        retry_seconds=10,
        replay_tokens=100_000,
        keep_days=None,
    )
    assert config.journal == JournalConfig(content="full", keep_days=None)
    assert config.keep == timedelta(days=30)
    assert config.loop == Loop(turns=50, on_denial="skip-rest", deadline_minutes=240)
    assert config.tools == Tools(
        declarations=(), auto_approve=False, eligible={}, urls={}, limit=128, virtual_threshold=128
    )
    assert config.serve == Serve(host="127.0.0.1", port=8427, api_keys=())
    assert (config.console.enabled, config.console.url, config.keys) == (True, None, {})


def test_every_key_of_the_interface(tmp_path: Path) -> None:
    config = _loaded(tmp_path, _COMPLETE)
    assert list(config.models) == ["claude", "gateway", "tape", "demo"]
    assert config.default_model == "claude"
    assert config.models["claude"] == AcpModel(
        agent="claude",
        command=("npx", "-y", "@agentclientprotocol/claude-agent-acp"),
        name="Claude Code",
        env={"ANTHROPIC_API_KEY": "$ANTHROPIC_API_KEY"},
        cwd=tmp_path,
        mode="default",
        options={"model": "opus", "fast": True, "effort": 3, "heat": 0.5},
        fs=False,
    )
    assert config.models["gateway"] == ResponsesModel(
        base_url="http://127.0.0.1:8000/v1", model="some/model", api_key="$GATEWAY_KEY"
    )
    assert config.models["tape"] == ScriptModel(path=tmp_path / "demo.jsonl")
    assert config.tools.declarations == (tmp_path / "tools.json",)
    assert config.serve.api_keys == ("$DRAGOMAN_KEY",)
    folders = (tmp_path / "src", Path("/srv"))
    assert config.keys == {"alice": KeyConfig("$ALICE_KEY", "admin", ("claude", "demo"), folders)}
    # What the file repeats is what holds without it.
    assert config.conversation == ConversationConfig()
    assert config.keep == Config().keep
    assert config.loop == Loop()
    assert config.console == ConsoleConfig()


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("", 30),
        ("[conversation]\nkeep_days = 7\n", 7),
        ("[journal]\nkeep_days = 0\n", 0),
        ("[conversation]\nkeep_days = 7\n[journal]\nkeep_days = 90\n", 90),
    ],
)
def test_keep_days_has_a_new_place_and_the_old_one_is_read(tmp_path: Path, text: str, days: int) -> None:
    assert _loaded(tmp_path, text).keep == timedelta(days=days)


def test_paths_are_relative_to_the_file_or_to_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "dragoman.toml").write_text(
        '[tools]\ndeclarations = ["a.json", "../b.json", "/c.json", "~/d.json", "~nobody-by-that-name/e.json"]\n'
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/somebody")
    folder = tmp_path / "project"
    assert load(Path("project/dragoman.toml")).tools.declarations == (
        folder / "a.json",
        folder / "../b.json",
        Path("/c.json"),
        Path("/home/somebody/d.json"),
        folder / "~nobody-by-that-name/e.json",
    )


def test_a_file_may_define_the_demo_anew(tmp_path: Path) -> None:
    config = _loaded(tmp_path, '[models.demo]\nkind = "script"\npath = "mine.jsonl"\n')
    assert config.models == {"demo": ScriptModel(path=tmp_path / "mine.jsonl")}


def test_a_file_may_change_settings_of_the_demo_and_nothing_else(tmp_path: Path) -> None:
    demo = BUILTIN_MODELS["demo"]
    changed = _loaded(tmp_path, '[models.demo]\npermission = "allow"\n')
    assert changed.models == {"demo": msgspec.structs.replace(demo, permission="allow")}
    named = _loaded(tmp_path, '[models.demo]\nname = "Mine"\nfs = true\n')
    assert named.models == {"demo": msgspec.structs.replace(demo, name="Mine", fs=True)}
    # A wrong key is found as in any other model.
    [problem] = _problems(tmp_path, '[models.demo]\npermision = "allow"\n')
    assert "unknown key" in problem
    assert 'Did you mean "permission"?' in problem


def test_a_model_without_its_kind_is_searched_for_other_mistakes(tmp_path: Path) -> None:
    lacking, unknown = _problems(tmp_path, '[models.x]\npermision = "allow"\n')
    assert 'lacks "kind"' in lacking
    assert 'Did you mean "permission"?' in unknown


def test_a_byte_order_mark_and_windows_line_ends_are_no_problem(tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_bytes(b"\xef\xbb\xbf[loop]\r\nturns = 7\r\n")
    assert load(file).loop.turns == 7


def test_the_text_of_the_file_is_not_shown_with_the_configuration(tmp_path: Path) -> None:
    config = _loaded(tmp_path, "# hunter2\n[loop]\nturns = 7\n")
    assert "hunter2" not in repr(config)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "[conversation]\n\nidle_minuts = 30\n",
            '3: unknown key "idle_minuts" in [conversation]. Did you mean "idle_minutes"?',
        ),
        ("\n[modles.x]\n", "2: unknown table [modles]. Did you mean [models]?"),
        (
            '[mcp_servers.docs]\ncommand = "x"\n',
            (
                "1: [mcp_servers.docs] is not supported yet: Dragoman starts no MCP servers. Configure them in the agent's own"
                " settings; the agent then has their tools, and asks for permission as it does elsewhere. Remove the table here."
            ),
        ),
        (
            "[mcpServers.a]\n[mcpServers.b]\n",
            (
                "1: [mcpServers] is not supported yet: Dragoman starts no MCP servers. Configure them in the agent's own settings;"
                " the agent then has their tools, and asks for permission as it does elsewhere. Remove the table here."
            ),
        ),
        (
            "[zzz]\n",
            "1: unknown table [zzz]. Known here: [models], [conversation], [journal], [tools], [chat], [[policy]], [loop], [serve], [console], [keys], [fleet].",
        ),
        ("tools_ = 5\n", '1: unknown key "tools_" outside of any table. Did you mean [tools]?'),
        (
            "[loop]\nxyz = 1\n",
            '2: unknown key "xyz" in [loop]. Known here: "turns", "on_denial", "deadline_minutes".',
        ),
        (
            '[models.a]\nkind = "script"\npath = "x"\n\npermision = "deny"\n',
            (
                '5: unknown key "permision" in [models.a]. Known here: "kind", "name", "reasoning", "reasoning_fallback", '
                '"path", "max_input_tokens", "max_output_tokens".'
            ),
        ),
        ("loop = 3\n", '1: "loop": expected a table, found 3.'),
        ("[loop]\nturns = 0\n", '2: "turns" in [loop]: expected a whole number from 1 to 10000, found 0.'),
        (
            "[loop]\nturns = true\n",
            '2: "turns" in [loop]: expected a whole number from 1 to 10000, found true.',
        ),
        (
            "[loop]\nturns = 2.5\n",
            '2: "turns" in [loop]: expected a whole number from 1 to 10000, found 2.5.',
        ),
        (
            f"[loop]\nturns = {10**50}\n",
            '2: "turns" in [loop]: expected a whole number from 1 to 10000, found a number of many digits.',
        ),
        (
            "[loop]\ndeadline_minutes = 0\n",
            '2: "deadline_minutes" in [loop]: expected a number above 0 up to 10080, found 0.',
        ),
        (
            "[loop]\ndeadline_minutes = true\n",
            '2: "deadline_minutes" in [loop]: expected a number above 0 up to 10080, found true.',
        ),
        (
            "[conversation]\nretry_seconds = nan\n",
            '2: "retry_seconds" in [conversation]: expected a number from 0 to 600, found nan.',
        ),
        (
            "[conversation]\nkeep_days = 'for ever and ever and ever and ever and ever'\n",
            (
                '2: "keep_days" in [conversation]: expected a number from 0 to 3650, '
                'found "for ever and ever and ever and ever and …".'
            ),
        ),
        (
            '[loop]\non_denial = "skiprest"\n',
            '2: "on_denial" in [loop]: expected "ask-each" or "skip-rest", found "skiprest". Did you mean "skip-rest"?',
        ),
        (
            "[loop]\non_denial = [1]\n",
            '2: "on_denial" in [loop]: expected "ask-each" or "skip-rest", found a list.',
        ),
        (
            "[loop.turns]\n",
            '1: "turns" in [loop]: expected a whole number from 1 to 10000, found a table.',
        ),
        ("[tools]\nauto_approve = 1\n", '2: "auto_approve" in [tools]: expected true or false, found 1.'),
        (
            "[tools]\nurls = 1979-05-27\n",
            '2: "urls" in [tools]: expected a table, found a date or time.',
        ),
        (
            '[tools]\ndeclarations = "tools.json"\n',
            '2: "declarations" in [tools]: expected a list [ … ] of paths in quotes, found "tools.json".',
        ),
        (
            '[tools]\ndeclarations = [\n "a",\n "",\n]\n',
            (
                '4: element 2 of "declarations" in [tools]: expected the path of a file or folder in quotes, '
                "found an empty text."
            ),
        ),
        (
            '[tools]\ndeclarations = ["a\\u0000b"]\n',
            (
                '2: element 1 of "declarations" in [tools]: expected the path of a file or folder in quotes, '
                'found "a\\x00b".'
            ),
        ),
        (
            '[tools.urls]\n"https://a.example/*" = true\n"example.com" = true\n',
            '3: "example.com" in [tools.urls]: ',
        ),
        ("[tools.eligible]\nrun = 0\n", '2: "run" in [tools.eligible]: expected true or false, found 0.'),
        ("[models.a]\n", '1: [models.a] lacks "kind": "acp", "responses", "script" or "fleet".'),
        ("[models]\na = 1\n", '2: "a" in [models]: expected a table, found 1.'),
        (
            '[models.a]\nkind = "script"\n',
            '1: [models.a] lacks "path": the path of a file or folder in quotes.',
        ),
        (
            '[models.a]\nname = "x"\nkind = "scrpt"\n',
            (
                '3: "kind" in [models.a]: expected "acp", "responses", "script" or "fleet", found "scrpt". '
                'Did you mean "script"?'
            ),
        ),
        (
            "[models.a]\nkind = 1\n",
            '2: "kind" in [models.a]: expected "acp", "responses", "script" or "fleet", found 1.',
        ),
        (
            '[models."my model"]\nkind = "acp"\n',
            '1: "my model" in [models]: expected a name of at most 64 letters, digits, dots and dashes as the key.',
        ),
        (
            '[models.a]\nkind = "acp"\nagent = "dmeo"\ncommand = ["x"]\n',
            '3: "agent" in [models.a]: "dmeo" is not in the catalogue. Did you mean "demo"?',
        ),
        (
            '[models.a]\nkind = "acp"\nagent = "zzz"\n',
            (
                '3: "agent" in [models.a]: "zzz" is not in the catalogue. There are demo, claude, claude-node20, codex, copilot, '
                'fast-agent, gemini, kimi, opencode, qwen; for any other agent leave "agent" out and give its "command".'
            ),
        ),
        (
            '[models.a]\nkind = "acp"\n',
            '1: [models.a] has neither "agent" nor "command". Add the one that starts it.',
        ),
        (
            '[models.a]\nkind = "acp"\ncommand = []\n',
            '3: "command" in [models.a]: expected a list [ … ] of texts in quotes, found an empty list.',
        ),
        (
            '[models.a]\nkind = "acp"\nagent = "x"\noptions.model = ["y"]\n',
            '4: "model" in [models.a.options]: expected a text in quotes, true or false, or a number, found a list.',
        ),
        (
            '[models.a]\nkind = "acp"\nagent = "x"\nenv = { "A-B" = "secret" }\n',
            '4: "A-B" in [models.a.env]: expected the name of a variable as the key.',
        ),
        (
            '[models.a]\nkind = "acp"\nagent = "x"\nenv = { A = 12345 }\n',
            '4: "A" in [models.a.env]: expected a text in quotes, found a number.',
        ),
        (
            '[models.a]\nkind = "responses"\nmodel = "m"\nbase_url = "127.0.0.1:80"\n',
            '4: "base_url" in [models.a]: expected an http:// or https:// address, found "127.0.0.1:80".',
        ),
        (
            "[serve]\nport = 65536\n",
            '2: "port" in [serve]: expected a whole number from 0 to 65535, found 65536.',
        ),
        (
            "[serve]\napi_keys = [12345]\n",
            '2: element 1 of "api_keys" in [serve]: expected a text in quotes, found a number.',
        ),
        (
            '[serve]\nport = 1\nhost = "0.0.0.0"\n',
            '3: "host" in [serve]: with "0.0.0.0" other machines can connect, so add "api_keys", or [keys.NAME].',
        ),
        (
            '[models.far]\nkind = "fleet"\n',
            '1: [models.far] is a model of a fleet, and there is none. Add [fleet] with its "url".',
        ),
        (
            '[fleet]\nname = "one"\n',
            '2: "name" in [fleet] needs "url": without it there is no fleet.',
        ),
        (
            '[fleet]\nurl = "nats://127.0.0.1:4222"\ntls_ca = "ca.pem"\n',
            '3: "tls_ca" in [fleet] is for TLS, and a nats:// address does not ask for that. Write tls:// in "url".',
        ),
        (
            '[fleet]\nurl = "nats://me:secret@127.0.0.1:4222"\n',
            '2: "url" in [fleet]: expected a nats:// or tls:// address without a password, like "tls://nats.example:4222", or a list [ … ] of texts in quotes, found a text.',
        ),
        (
            '[fleet]\nurl = "127.0.0.1:4222"\n',
            '2: "url" in [fleet]: expected a nats:// or tls:// address without a password, like "tls://nats.example:4222", or a list [ … ] of texts in quotes, found "127.0.0.1:4222".',
        ),
        (
            '[console]\nurl = "http://console.example/"\n',
            '2: "url" in [console]: expected an https:// address without a path, found "http://console.example/".',
        ),
        (
            '[console]\nwebhook = "https://hooks.example/secret"\n',
            '2: "webhook" in [console] needs "webhook_secret", with which the messages are signed.',
        ),
        (
            '[console]\nwebhook = "hooks.example/secret-path"\nwebhook_secret = "s"\n',
            '2: "webhook" in [console]: expected an http:// or https:// address, found a text.',
        ),
        ('[keys.alice]\nrole = "admin"\n', '1: [keys.alice] lacks "key": a text in quotes.'),
        (
            '[keys.alice]\nkey = "k"\nrole = "root"\n',
            '3: "role" in [keys.alice]: expected "admin" or "user", found "root".',
        ),
        (
            "[keys.alice]\nkey = 12345\n",
            '2: "key" in [keys.alice]: expected a text in quotes, found a number.',
        ),
        (
            '[keys."a b"]\nkey = "k"\n',
            '1: "a b" in [keys]: expected a name of at most 32 letters, digits, dots and dashes as the key.',
        ),
        (
            '[models.claude]\nkind = "acp"\nagent = "claude"\n[keys.alice]\nkey = "k"\nmodels = ["demo",\n "cluade"]\n',
            '7: "models" in [keys.alice]: there is no model "cluade". Did you mean "claude"?',
        ),
        (
            '[keys.alice]\nkey = "k"\nmodels = ["zzz"]\n',
            '3: "models" in [keys.alice]: there is no model "zzz". There are demo.',
        ),
        (
            '[keys.alice]\nkey = "k"\nworkspaces = []\n',
            '3: "workspaces" in [keys.alice]: expected a list [ … ] of paths in quotes, found an empty list.',
        ),
        ("[loop]\nturns = \n", "2:9: not valid TOML: Invalid value."),
        ("[loop]\n\nturns = [1,\n", "4: not valid TOML: Invalid value at the end of the file."),
        ("[loop]\n[loop]\n", "2:6: not valid TOML: Cannot declare ('loop',) twice."),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, text: str, problem: str) -> None:
    [found] = _problems(tmp_path, text)
    assert found.startswith(f"dragoman.toml:{problem}")


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.8.8.8"])
def test_a_loopback_host_needs_no_keys(tmp_path: Path, host: str) -> None:
    assert _loaded(tmp_path, f'[serve]\nhost = "{host}"\n').serve.host == host


@pytest.mark.parametrize("keys", ['api_keys = ["$A_KEY"]', '[keys.alice]\nkey = "$A_KEY"'])
def test_another_host_is_fine_with_keys(tmp_path: Path, keys: str) -> None:
    text = f'[serve]\nhost = "example.internal"\n{keys}\n'
    assert _loaded(tmp_path, text).serve.host == "example.internal"


def test_all_problems_are_told_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = '[serve]\nport = -1\n[models.b]\nkind = "acp"\nx = 1\nfs = 1\n[loop]\nturns = 0\n[models.a]\n'
    assert [problem.partition(": ")[0] for problem in _problems(tmp_path, text)] == [
        f"dragoman.toml:{line}" for line in (2, 5, 6, 8, 9)
    ]


def test_a_key_is_not_shown_when_it_is_wrong(tmp_path: Path) -> None:
    text = '[models.a]\nkind = "responses"\nmodel = "m"\nbase_url = "http://a"\napi_key = 31337\n'
    assert "31337" not in "".join(_problems(tmp_path, text))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml: the configuration cannot be read: No such file"):
        load(tmp_path / "none.toml")


def test_a_folder_and_an_impossible_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load(tmp_path)
    with pytest.raises(ConfigError, match="cannot be read: embedded null byte"):
        load(Path("a\0b"))


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_bytes(b"#" * (MAX_FILE_BYTES + 1))
    with pytest.raises(ConfigError, match="more than 1,048,576 bytes"):
        load(file)


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_bytes(b"[loop]\n# \xff\n")
    with pytest.raises(ConfigError, match=r"dragoman\.toml:2: not UTF-8 text \(byte 0xff\)"):
        load(file)


def test_values_nested_without_end(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nested too deeply"):
        _loaded(tmp_path, f"a = {'[' * 5_000}{']' * 5_000}\n")


def test_a_number_of_thousands_of_digits(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not valid TOML: Exceeds the limit"):
        _loaded(tmp_path, f"a = {'1' * 5_000}\n")


def test_a_syntax_error_in_other_words_is_told_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Another version of the parser may place its errors in another way.
    def parse(_text: str) -> None:
        raise tomllib.TOMLDecodeError("Something is wrong")

    monkeypatch.setattr(tomllib, "loads", parse)
    [found] = _problems(tmp_path, "a = 1\n")
    assert found == "dragoman.toml: not valid TOML: Something is wrong."


def test_what_the_walk_misses_is_told_in_the_words_of_msgspec(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explain, "complaints", lambda _value: iter(()))
    [found] = _problems(tmp_path, "[loop]\nturns = 0\n")
    assert found == "dragoman.toml:1: Expected `int` >= 1 - at `$.loop.turns`"


def test_quoted_text_is_on_one_line_and_obeyed_by_no_terminal() -> None:
    assert quoted('a"b\\c\n\x1b[2Jé\u202e') == '"a\\"b\\\\c\\n\\x1b[2Jé\\u202e"'
    assert str(Problem("a.toml:1", "no.")) == "a.toml:1: no."


# --- Anything at all. ------------------------------------------------------------------------------------------------


def _refusal(file: Path) -> tuple[Problem, ...] | None:
    try:
        load(file)
    except ConfigError as error:
        return error.problems
    return None


@settings(deadline=None)
@given(
    st.binary(max_size=300) | st.text(max_size=300).map(lambda text: text.encode("utf-8", "surrogatepass"))
)
@example(b"\xef\xbb\xbf\xff")
@example(b"a = '' '\n")
def test_any_bytes_are_a_configuration_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    file = tmp_path_factory.getbasetemp() / "any.toml"
    file.write_bytes(data)
    problems = _refusal(file)
    assert problems is None or (problems and all(problem.where.startswith(str(file)) for problem in problems))


@settings(deadline=None)
@given(st.data())
def test_a_file_with_a_mistake_in_it_is_a_configuration_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    text = _COMPLETE
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        cut = data.draw(st.integers(0, 5))
        text = text[:at] + data.draw(st.text("\"'[]{}=.,#\n 0atk$-", max_size=4)) + text[at + cut :]
    file = tmp_path_factory.getbasetemp() / "mistaken.toml"
    file.write_text(text, "utf-8")
    lines = [int(problem.where.removeprefix(f"{file}:").split(":")[0]) for problem in _refusal(file) or ()]
    assert all(1 <= line <= text.count("\n") + 1 for line in lines)


_leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(10**18, 10**400)
    | st.floats()
    | st.sampled_from(["", "a", "acp", "script", "deny", "any", "edit", "http://a", "a\0b", "text"])
    | st.dates()
).filter(lambda value: value is not None)
_keys = st.sampled_from(
    [
        *("models", "conversation", "tools", "policy", "loop", "serve", "console", "keys"),
        *("key", "role", "models", "workspaces", "url", "webhook", "webhook_secret", "decide_minutes"),
        *("decision", "args", "without", "expands", "paths", "examples"),
        *(
            "kind",
            "path",
            "command",
            "env",
            "options",
            "agent",
            "name",
            "reasoning",
            "base_url",
            "model",
            "api_key",
        ),
        *(
            "idle_minutes",
            "declarations",
            "urls",
            "limit",
            "turns",
            "on_denial",
            "host",
            "port",
            "api_keys",
            "x y",
        ),
    ]
)
_trees = st.recursive(
    _leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys, inner, max_size=4),
    max_leaves=12,
)


_rules = st.fixed_dictionaries(
    {"decision": st.sampled_from(["allow", "deny"])},
    optional={
        "kind": st.sampled_from(["edit", "edits", ["edit"], ["edit", "x"], [], [[]]]),
        "command": st.lists(
            st.sampled_from(["a", ""]) | st.lists(st.sampled_from(["b", "", 3]), max_size=2), max_size=2
        ),
        "paths": _trees,
        "x y": _leaves,
    },
)
_policies = st.lists(_rules | _trees, max_size=3).map(lambda rules: {"policy": rules})


@pytest.mark.long
@settings(deadline=None, max_examples=300)
@given(st.dictionaries(_keys, _trees, max_size=4) | _policies)
@example({"models": {"kind": {"kind": "acp", "options": {"x y": 10**400}}}})
@example({"loop": {"deadline_minutes": 10**400}})
def test_the_walk_finds_something_exactly_when_msgspec_does(value: dict[str, object]) -> None:
    def hook(_type: type, text: object) -> Path:
        if isinstance(text, str) and text and "\0" not in text:
            return Path(text)
        raise ValueError("not a path")

    try:
        msgspec.convert(value, Tables, dec_hook=hook)
    except msgspec.ValidationError:
        assert list(explain.complaints(value))
    else:
        assert not list(explain.complaints(value))
