/**
 * Every text of the page.
 *
 * @import {ConversationState, Level, Outcome, Role} from './types.js'
 */

/** @type {Record<Level, string>} */
const LEVELS = {
  once: 'once',
  session: 'for the session',
  workspace: 'for the workspace',
  always: 'always',
  rule: 'with a new rule',
};

/** @type {Record<ConversationState, string>} */
const STATES = {
  answering: 'Answering',
  asking: 'Asks you',
  waiting: 'Waits for the client',
  idle: 'Idle',
  stored: 'Stored',
  elsewhere: 'In another process',
};

/** @param {number} count @param {string} noun */
const counted = (count, noun) => `${count.toLocaleString('en')} ${noun}${count === 1 ? '' : 's'}`;

export const texts = {
  name: 'Dragoman',
  counted,
  cancel: 'Cancel',
  close: 'Close',
  again: 'Try again',
  unreachable: 'The server cannot be reached.',
  strange: 'The server sent an answer that this page does not understand.',
  nothing: 'none',

  connection: {
    connected: 'Connected',
    connecting: 'Connecting…',
    lost: 'Reconnecting…',
    banner: 'Not connected. This page shows what it last knew, and tries again by itself.',
    back: 'Connected again.',
    crowded: 'The console is open too often in this browser. Close a tab.',
  },

  views: { inbox: 'Inbox', conversations: 'Conversations', devices: 'Devices', pair: 'Pair this device' },

  pair: {
    where: ['Type the code that ', 'dragoman serve', ' printed in its terminal. For a new one, press ', 'p', ' there. A device that is paired already makes one under Devices.'],
    valid: 'A code is valid for two minutes, and works once.',
    filled: 'The code comes from the link that you opened. Press Pair if you opened it yourself.',
    code: 'Code',
    device: 'Name of this device',
    deviceHint: 'The name that others see beside your decisions.',
    button: 'Pair',
    busy: 'Pairing…',
    ended:
      'This device is no longer paired. It was signed out or revoked, or the server was started again. Pair it anew.',
    insecure:
      'This page was loaded over plain HTTP, not from this machine. Others in the network could read and change it. ' +
      'Use an https address, and set it as url under [console].',
    needCode: 'Enter the code.',
    /** @type {Record<number, string>} */
    errors: {
      403: 'This code is wrong, used or too old. Press p in the terminal for a new one.',
      429: 'Too many attempts. Wait a minute, then use a new code.',
    },
    storage: 'This browser stores nothing for this page. Allow it to store data, or leave its private mode.',
  },

  inbox: {
    empty: 'Nothing waits for you.',
    emptyHint: 'When an agent needs a decision, it appears here.',
    watching: 'This device may watch. Decisions are made on a device that may decide.',
    elsewhere: 'Waiting elsewhere',
    elsewhereHint: 'These questions belong to other processes. Answer them there.',
    /** @param {string} where */
    answerAt: (where) => `Answer it there: ${where}`,
    decided: 'Decided',
    /** @param {string} title */
    fresh: (title) => `New question: ${title}`,
    notify: 'Notify me',
    notifying: 'Notifications are on.',
    notifyDenied: 'Notifications are blocked in this browser.',
    openConversation: 'Open the conversation',
  },

  question: {
    agent: 'Agent',
    client: 'Client',
    key: 'Key',
    conversation: 'Conversation',
    node: 'Machine',
    folder: 'Folder',
    sensitive: 'Sensitive',
    asked: 'asked',
    covers: 'A lasting yes covers',
    why: 'Why',
    rules: 'Rules',
    /** @param {string} label @param {number} lines */
    region: (label, lines) => `${label}, ${counted(lines, 'line')}`,
    /** @param {number} lines */
    scroll: (lines) => `${counted(lines, 'line')}. Scroll inside the box to read all of them.`,
    text: 'Text',
    cut: 'Parts of this are left out.',
    showAll: 'Show all of it',
    loading: 'Loading…',
    allShown: 'All of it is shown.',
    allow: 'Allow once',
    deny: 'Deny',
    longer: 'Allow for longer',
    withReason: 'Deny with a reason',
    /** @type {Record<Level, string>} */
    levels: {
      once: 'Once',
      session: 'For the session',
      workspace: 'For the workspace',
      always: 'Always',
      rule: 'As a rule…',
    },
    /** @type {Record<Level, string>} */
    levelHints: {
      once: '',
      session: 'In this conversation.',
      workspace: 'In every conversation that works in this folder, also after a restart.',
      always: 'Also in conversations that work in another folder. The action itself stays in its folder.',
      rule: 'You see the rule before it is written.',
    },
    revoking: ['To take one of the last two back, use ', 'dragoman approvals', ' on the server’s machine.'],
    /** @param {string} node */
    noRules: (node) => `No rule can be made of this here: the agent runs on ${node}, which has rules of its own.`,
    showFirst: 'Press “Show all of it” first. A lasting yes needs the whole text.',
    reason: 'Reason, for the agent',
    sendDeny: 'Deny with this reason',
    sending: 'Sending…',
    unknown:
      'The server did not answer, so it is not known whether this decision arrived. The question stays here until ' +
      'the server says more.',
    /** @param {string} message */
    failed: (message) => `Not decided: ${message}`,
    already: 'This question was decided already.',
    over: 'This question has ended.',
    gone: 'This question no longer waits. It ended while the page was not connected.',
    timeUp: 'Time is up',
    /** @param {string} left */
    left: (left) => `${left} left`,
    ruleTitle: 'Allow as a rule',
    /** @param {string} file */
    ruleFile: (file) => `The rule is added to ${file}`,
    ruleConfirm: 'Add the rule and allow',
    noOffers: 'No rule can be made of this action.',
  },

  conversations: {
    model: 'Model',
    client: 'Client',
    state: 'State',
    all: 'All',
    empty: 'There is no such conversation.',
    more: 'Show older ones',
    untitled: 'Without a title',
    states: STATES,
    /** @param {number} count */
    questions: (count) => `${counted(count, 'question')} for you`,
    loading: 'Loading…',
    filter: 'Filter',
  },

  conversation: {
    back: 'All conversations',
    gone: 'This conversation does not exist, or this device may not see it.',
    stop: 'Stop the turn',
    stopText: 'The agent stops what it does now. The conversation can go on later.',
    park: 'Park the agent',
    parkText: 'The agent’s process ends. The conversation stays stored, and goes on with the next message.',
    remove: 'Delete',
    removeTitle: 'Delete this conversation?',
    removeText: 'Its messages and stored responses are deleted for good. Files that the agent changed stay as they are.',
    removed: 'The conversation is deleted.',
    stopped: 'The turn is stopped.',
    parked: 'The agent is parked.',
    node: 'Machine',
    /** @param {string} node */
    silent: (node) => `It runs on ${node}, which does not answer now.`,
    /** @param {string} owner */
    owner: (owner) => `It runs in another process: ${owner}`,
    asks: 'A question of this conversation waits in the inbox.',
    toInbox: 'Go to the inbox',
    empty: 'Nothing is stored yet.',
    started: 'Started',
    entries: 'Messages',
    undecided: 'No decision is recorded here.',
    /** @param {string} name @param {number} lines */
    folded: (name, lines) => `${name}, ${counted(lines, 'line')}`,
    /** @type {Record<string, string>} */
    roles: {
      user: 'User',
      agent: 'Agent',
      thinking: 'Thinking',
      step: 'Step',
      plan: 'Plan',
      permission: 'Permission',
      result: 'Result',
      note: 'Note',
    },
  },

  devices: {
    /** @type {Record<Role, string>} */
    roles: { decide: 'May decide', watch: 'May watch' },
    allKeys: 'All conversations',
    /** @param {string} key */
    oneKey: (key) => `Conversations of key ${key}`,
    self: 'This device',
    /** @param {string} when */
    since: (when) => `Paired ${when}`,
    /** @param {string} when */
    seen: (when) => `seen ${when}`,
    revoke: 'Revoke',
    /** @param {string} name */
    revokeTitle: (name) => `Revoke ${name}?`,
    revokeText: 'That device is signed out at once.',
    revoked: 'The device is revoked.',
    signOut: 'Sign out',
    signOutTitle: 'Sign this device out?',
    signOutText: 'It needs a new code to come back.',
    another: 'Pair another device',
    anotherHint: 'The code works once, for two minutes. Show it only to people who may use it.',
    role: 'The device may',
    roleChoices: { decide: 'decide', watch: 'only watch' },
    key: 'It sees',
    create: 'Show a code',
    code: 'Code',
    link: 'Link',
    noQr: 'This link works on this machine only. For a phone, set url under [console] of the configuration.',
    qr: 'QR code of the link',
    expired: 'This code is too old. Ask for a new one.',
  },

  /** @param {Outcome} outcome */
  outcome: (outcome) => {
    const by = outcome.by ? ` by ${outcome.by}` : '';
    if (outcome.state === 'allowed') {
      // A rule decides the next ones; this answer itself counts once.
      return `Allowed ${LEVELS[outcome.rule ? 'rule' : (outcome.level ?? 'once')]}${by}`;
    }
    if (outcome.state === 'denied') return `Denied${by}`;
    return outcome.state === 'expired' ? 'Time ran out, so it was denied' : 'Ended without a decision: the program disconnected, the turn ended, or the agent withdrew the question';
  },

  /** @param {number} seconds */
  span: (seconds) => {
    const whole = Math.max(0, Math.floor(seconds));
    if (whole < 60) return `${whole} s`;
    if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
    return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  },

  /** @param {number} seconds */
  ago: (seconds) => {
    if (seconds < 45) return 'just now';
    if (seconds < 5400) return `${Math.round(seconds / 60)} min ago`;
    return seconds < 129_600 ? `${Math.round(seconds / 3600)} h ago` : `${Math.round(seconds / 86_400)} days ago`;
  },
};
