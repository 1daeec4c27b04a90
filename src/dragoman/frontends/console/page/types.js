/**
 * The JSON of the console's API, as docs/console-design.md describes it. Types only: no browser loads this file.
 *
 * @typedef {"decide" | "watch"} Role
 * @typedef {"once" | "session" | "workspace" | "always" | "rule"} Level
 *
 * @typedef {object} Section
 * @property {string} label
 * @property {string} text
 * @property {string} language
 * @property {string} note
 * @property {boolean} inline
 *
 * @typedef {object} MatchedRule
 * @property {string} decision
 * @property {string} file
 * @property {number | null} line
 * @property {string | null} reason
 *
 * @typedef {object} Offer
 * @property {string} words
 * @property {string} toml
 *
 * @typedef {object} Question
 * @property {string} id
 * @property {string} title
 * @property {string} agent
 * @property {string} agent_name
 * @property {string | null} client
 * @property {string | null} key
 * @property {string | null} conversation
 * @property {string | null} node   The machine of the fleet on which the agent runs, if it is another one.
 * @property {string} folder
 * @property {string} class
 * @property {string | null} sensitive
 * @property {number} asked_at
 * @property {number} expires_at
 * @property {boolean} is_cut
 * @property {Section[]} sections
 * @property {string | null} covers
 * @property {Level[]} levels
 * @property {MatchedRule[]} rules
 * @property {string | null} why
 * @property {string} state
 *
 * @typedef {Question & {offers: Offer[], rules_file: string}} WholeQuestion
 *
 * @typedef {object} Outcome
 * @property {"allowed" | "denied" | "expired" | "ended"} state
 * @property {string | null} by
 * @property {number} at
 * @property {Level | null} level
 * @property {string | null} reason
 * @property {string | null} rule
 * @property {string} [words]   Of a stored decision: what decided, in words.
 *
 * @typedef {object} Decision
 * @property {"allow" | "deny"} decision
 * @property {Level} [level]
 * @property {string} [toml]   The text of the offered rule, as it was shown.
 * @property {string} [reason]
 *
 * @typedef {object} ElsewhereQuestion
 * @property {string} id
 * @property {string} title
 * @property {string} agent
 * @property {string | null} conversation
 * @property {string} where
 * @property {number} asked_at
 *
 * @typedef {object} Session
 * @property {string} id
 * @property {string} name
 * @property {Role} role
 * @property {string | null} key   The one key whose conversations it sees; null: all conversations.
 * @property {number} paired_at
 * @property {number} seen_at
 * @property {boolean} is_self
 *
 * @typedef {object} Hello
 * @property {string} stream
 * @property {Session} session
 * @property {string} address
 * @property {string[]} models
 * @property {string[]} keys
 * @property {{questions: Question[], elsewhere: ElsewhereQuestion[]}} snapshot
 *
 * @typedef {"answering" | "asking" | "waiting" | "idle" | "stored" | "elsewhere"} ConversationState
 *
 * @typedef {object} Conversation
 * @property {string} id
 * @property {string} model
 * @property {string} title
 * @property {string | null} client
 * @property {string | null} key
 * @property {string | null} folder
 * @property {number} started_at
 * @property {number} used_at
 * @property {number} sequence
 * @property {ConversationState} state
 * @property {string | null} owner
 * @property {string | null} node   The machine of the fleet that has it, if it is another one.
 * @property {number} questions
 *
 * @typedef {object} ConversationPage
 * @property {Conversation[]} conversations
 * @property {string | number | null} next   The value of `before` for the next page.
 *
 * @typedef {object} Entry
 * @property {string} key   A later entry with the same key replaces this one.
 * @property {number} sequence
 * @property {number} at
 * @property {"user" | "agent" | "thinking" | "step" | "plan" | "permission" | "result" | "note"} role
 * @property {string} text
 * @property {string | null} [status]    A step: how far it is.
 * @property {Outcome | null} [outcome]   A permission: how it was decided.
 * @property {string | null} [question]   A permission: the question that waits here.
 *
 * @typedef {object} EntryPage
 * @property {Conversation} conversation
 * @property {Entry[]} entries
 * @property {number} sequence   The value of `after` for the next call.
 * @property {boolean} more
 *
 * @typedef {object} Pairing
 * @property {string} code
 * @property {string} url
 * @property {string[]} qr
 * @property {number} expires_at
 */

export {};
