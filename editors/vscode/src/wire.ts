/** The messages of the protocol of `dragoman vscode`. */

export const PROTOCOL_VERSION = 1;

export type Part =
  | { type: 'text'; value: string }
  | { type: 'thinking'; value: string | string[]; id?: string; metadata?: object }
  | { type: 'tool_call'; callId: string; name: string; input: object }
  | { type: 'tool_result'; callId: string; content: Part[]; isError?: boolean }
  | { type: 'data'; mimeType: string; data: string }
  | ProgressPart;

export interface Activity {
  type: 'activity';
  id: string;
  title: string;
  kind: string;
  status: 'pending' | 'in_progress' | 'completed' | 'failed';
  locations: { path: string; line?: number }[];
  diff?: string;
  output?: string;
  exitStatus?: number;
}

export interface Plan {
  type: 'plan';
  entries: { text: string; priority: string; status: 'pending' | 'in_progress' | 'completed' }[];
}

export interface Usage {
  type: 'usage';
  input?: number;
  output?: number;
  contextUsed?: number;
  contextSize?: number;
  cost?: number;
  currency?: string;
}

export type OptionValue = string | boolean | number;

/** An option of an agent's sessions. Its texts are the agent's. */
export interface AgentOption {
  id: string;
  name: string;
  description?: string;
  category?: string;
  current?: OptionValue;
  values: { value: OptionValue; name: string; description?: string }[];
}

/** The answer to `agent/options`. */
export interface AgentOffer {
  options?: AgentOption[];
  commands?: { name: string; description?: string; hint?: string }[];
  contextSize?: number;
}

/** A way to log in, in the answer to `agent/logins`. */
export interface Login {
  id: string;
  name: string;
  kind: 'agent' | 'terminal' | 'env_var';
  description?: string;
  terminal?: { command: string[]; env?: Record<string, string> };
}

/** A conversation in the answer to `conversations/list`. */
export interface ConversationRow {
  id: string;
  title: string;
  modelId: string;
  agent: string;
  client: string;
  folder: string;
  startedAt: number;
  usedAt: number;
  state: string;
  /** Whether the agent goes on with its own memory. */
  keepsMemory: boolean;
}

/** The answer to `conversations/messages`: the history that continues a conversation. */
export interface StoredConversation {
  modelId: string;
  title: string;
  messages: Message[];
  keepsMemory: boolean;
}

/** Progress beside the answer. A later part replaces the earlier one; for activities, the one with its id. */
export type ProgressPart = Activity | Plan | Usage;

export type ToolCall = Extract<Part, { type: 'tool_call' }>;

export type Role = 'user' | 'assistant' | 'system';

export interface Message {
  role: Role;
  content: Part[];
  name?: string;
}

export interface ModelInformation {
  id: string;
  name: string;
  family: string;
  version: string;
  maxInputTokens: number;
  maxOutputTokens: number;
  tooltip?: string;
  detail?: string;
  capabilities?: { toolCalling?: boolean | number; imageInput?: boolean };
  isBYOK?: boolean;
  isUserSelectable?: boolean;
  /** The size of the context that the agent has reported: the context indicator shows it. */
  maxContextWindowTokens?: number;
  /** The agent's options, for VS Code's own menus. */
  configurationSchema?: object;
  /** The capabilities of the model, by name. */
  tags?: string[];
}

export interface Tool {
  name: string;
  description: string;
  inputSchema?: object;
}

export const PERMISSION_PREFIX = 'dragoman-agent-action-';
export const RISK_CLASSES = ['read', 'edit', 'delete', 'execute', 'fetch', 'other', 'sensitive'] as const;

export function isPermissionTool(name: string): boolean {
  return name.startsWith(PERMISSION_PREFIX);
}

/** The answer to `tools/prepareInvocation`. The texts of the dialog are Markdown, those of the modal dialog plain text. */
export interface PreparedInvocation {
  invocationMessage: string;
  confirmationMessages: { title: string; message: string };
  modal: { message: string; detail: string };
  isSensitive: boolean;
  /** Whether the texts contain only a part of the question. */
  isCut: boolean;
}

/** The answer to `permissions/show`: the whole question as plain text. */
export interface Question {
  title: string;
  text: string;
}

export type ApprovalLevel = 'session' | 'workspace' | 'always';

/** A question in the answer to `permissions/recent`. */
export interface RecentQuestion {
  id: string;
  title: string;
  agent: string;
  detail: string;
  decision: string;
  at: string | number;
  /** What a lasting approval would cover, in words. */
  covers: string;
  levels: ApprovalLevel[];
  /** Absent in the answers of an older backend. */
  rules?: RuleOffer[];
}

/** A rule that would allow such actions from now on: what it allows, its text, and the file that it would be added to. */
export interface RuleOffer {
  words: string;
  toml: string;
  file: string;
}

/** The type of our marker in a response, which identifies the conversation and the place in it. */
export const STATEFUL_MARKER = 'stateful_marker';

/** The type of a data part that fills VS Code's context indicator. */
export const USAGE = 'usage';

/** The type of a data part with the JSON of a `ProgressPart`, for which VS Code has no class. */
export const ACTIVITY = 'application/vnd.dragoman.activity+json';

/** A model option: whether the response has such parts. Only our participant draws them, and sets it. */
export const ACTIVITY_OPTION = '_dragomanActivity';
