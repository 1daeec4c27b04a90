-- A state folder's database as Dragoman 0.1 left it: one conversation over HTTP with the demo agent, and one approval.
-- @WORKSPACE@ is the folder that the agent worked in; @NOW@ the time of all of it.
PRAGMA user_version = 4;
CREATE TABLE approvals (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            tool TEXT NOT NULL,
            key TEXT NOT NULL,
            workspace TEXT,
            granted_at TEXT NOT NULL
        );
CREATE UNIQUE INDEX approvals_by_subject ON approvals (tool, key, ifnull(workspace, ''));
CREATE TABLE approval_resets (count INTEGER NOT NULL);
CREATE TABLE conversations (
            id TEXT PRIMARY KEY,
            model TEXT NOT NULL,
            title TEXT NOT NULL,
            workspace TEXT NOT NULL,
            owner TEXT NOT NULL,
            used_at TEXT NOT NULL,
            content BLOB NOT NULL
        , leased_until REAL NOT NULL DEFAULT 0, revision INTEGER NOT NULL DEFAULT 0);
CREATE INDEX conversations_by_model ON conversations (model);
CREATE TABLE keys (name TEXT PRIMARY KEY, key BLOB NOT NULL);
CREATE INDEX conversations_by_revision ON conversations (revision);
CREATE TABLE conversation_revisions (count INTEGER NOT NULL);
CREATE TABLE responses (
            id TEXT PRIMARY KEY,
            connection TEXT NOT NULL,
            previous TEXT,
            used_at TEXT NOT NULL,
            content BLOB NOT NULL,
            size INTEGER NOT NULL
        );
CREATE INDEX responses_by_use ON responses (used_at, size);
INSERT INTO approvals VALUES (1, 'dragoman-agent-action-execute', 'echo hello', NULL, '@NOW@');
INSERT INTO approval_resets VALUES (0);
INSERT INTO conversations VALUES ('nrfisieeu7nywkzg', 'demo', 'Remember the word heron, please.', '@WORKSPACE@', '', '@NOW@', CAST('{"version":1,"id":"nrfisieeu7nywkzg","model":"demo","workspace":["@WORKSPACE@"],"connection":"http:","items":[["said","Remember the word heron, please.",[]],["answer","I am the demo agent: a real ACP agent with a script for a mind. Try one of these:\n\n- *read README.md*, *three in parallel*: I call your tools\n- *run a command*, *two permissions*: I ask before I act\n- *think about it*, *make a plan*, *draw a picture*\n- *tell a long story*, and stop me\n- *what did I say before?*\n\n`!tools` lists what you offer me.",[]],["said","What did I say?",[]],["answer","You said to me:\n\n- `Remember the word heron, please.`",[]]],"replies":[[1,1,1,2,"complete","",[]],[2,2,3,4,"complete","",[]]],"pending":[],"consumer_id":null,"session":"demo-c60e0a8a7212ec85","calls":0}' AS BLOB), 0.0, 7);
INSERT INTO keys VALUES ('tokens', X'f3557b826605d7560bcb587fe0dac08cae8f7236f72af7e77006e5f60532e121');
INSERT INTO conversation_revisions VALUES (7);
INSERT INTO responses VALUES ('resp_edc07c11eb9cb6421698b8d6bafbe598', 'http:', NULL, '@NOW@', CAST('{"items":[{"type":"message","role":"user","content":"Remember the word heron, please."}],"response":{"id":"resp_edc07c11eb9cb6421698b8d6bafbe598","object":"response","created_at":1794895251,"completed_at":1794895255,"status":"completed","incomplete_details":null,"model":"demo","previous_response_id":null,"output":[{"type":"message","id":"msg_0_bnJmaXNpZWV1N255d2t6Zy4xLjGv6gyTCt0F8VI5NdRedgXB","status":"completed","role":"assistant","content":[{"type":"output_text","text":"I am the demo agent: a real ACP agent with a script for a mind. Try one of these:\n\n- *read README.md*, *three in parallel*: I call your tools\n- *run a command*, *two permissions*: I ask before I act\n- *think about it*, *make a plan*, *draw a picture*\n- *tell a long story*, and stop me\n- *what did I say before?*\n\n`!tools` lists what you offer me.\n","annotations":[],"logprobs":[]}]}],"error":null,"usage":{"input_tokens":12,"input_tokens_details":{"cached_tokens":0},"output_tokens":91,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":103},"store":true,"background":false,"metadata":{},"instructions":null,"tools":[],"tool_choice":"auto","truncation":"disabled","parallel_tool_calls":true,"text":{"format":{"type":"text"}},"top_p":1.0,"presence_penalty":0.0,"frequency_penalty":0.0,"top_logprobs":0,"temperature":1.0,"reasoning":null,"max_output_tokens":null,"max_tool_calls":null,"service_tier":"default","safety_identifier":null,"prompt_cache_key":null},"previous":null,"consumer_id":null}' AS BLOB), 1491);
INSERT INTO responses VALUES ('resp_60bbb497f72808b874dd285a386a98e6', 'http:', 'resp_edc07c11eb9cb6421698b8d6bafbe598', '@NOW@', CAST('{"items":[{"type":"message","role":"user","content":"What did I say?"}],"response":{"id":"resp_60bbb497f72808b874dd285a386a98e6","object":"response","created_at":1794895255,"completed_at":1794895255,"status":"completed","incomplete_details":null,"model":"demo","previous_response_id":"resp_edc07c11eb9cb6421698b8d6bafbe598","output":[{"type":"message","id":"msg_0_bnJmaXNpZWV1N255d2t6Zy4yLjIHK4Fh1VEgNcou3Ur5rEcz","status":"completed","role":"assistant","content":[{"type":"output_text","text":"You said to me:\n\n- `Remember the word heron, please.`\n","annotations":[],"logprobs":[]}]}],"error":null,"usage":{"input_tokens":111,"input_tokens_details":{"cached_tokens":0},"output_tokens":18,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":129},"store":true,"background":false,"metadata":{},"instructions":null,"tools":[],"tool_choice":"auto","truncation":"disabled","parallel_tool_calls":true,"text":{"format":{"type":"text"}},"top_p":1.0,"presence_penalty":0.0,"frequency_penalty":0.0,"top_logprobs":0,"temperature":1.0,"reasoning":null,"max_output_tokens":null,"max_tool_calls":null,"service_tier":"default","safety_identifier":null,"prompt_cache_key":null},"previous":"resp_edc07c11eb9cb6421698b8d6bafbe598","consumer_id":null}' AS BLOB), 1245);
