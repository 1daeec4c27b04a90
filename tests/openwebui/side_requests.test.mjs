// What Open WebUI asks beside the chat: titles, tags, follow-ups and more. None of it acts, or leaves anything behind.
import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { test } from 'node:test';
import { until } from '../console_browser/children.mjs';
import { steps } from '../console_browser/clients.mjs';
import { asides, browser, CONNECTIONS, conversations, opened, prompted, served } from './suite.mjs';

/** The processes of agents that the server has. Before the first one there is no folder. */
function agents() {
  const folder = served.at('state', 'run', 'processes');
  return existsSync(folder) ? readdirSync(folder) : [];
}

/** How many responses of a model the server has completed. */
async function completed(model) {
  const metrics = await (await fetch(`${served.local}/metrics`)).text();
  return Number(new RegExp(`^dragoman_responses_total\\{model="${model}",outcome="completed"\\} (\\d+)`, 'm').exec(metrics)?.[1] ?? 0);
}

for (const { name, prefix } of CONNECTIONS) {
  test(`${name}: title, tags and follow-ups of a chat leave no conversation and no agent behind`, async () => {
    const words = `${name} aside`;
    const chat = await opened(`${prefix}agent`);
    const [before, running] = [await conversations(), agents()];
    await chat.ask(steps(['say', words]));
    await until('three side requests', () => asides(words).length === 3);
    const sessions = new Set([...asides(words), ...prompted(words)].map(({ session }) => session));
    assert.equal(sessions.size, 4, 'each has a session of its own');
    // That of the chat itself, and its agent. Idle agents of other chats may be parked meanwhile.
    assert.equal((await conversations()).length, before.length + 1);
    await until('the end of other agents', () => agents().filter((agent) => !running.includes(agent)).length <= 1);
  });

  test(`${name}: every task of Open WebUI is a side request`, async () => {
    const chat = await opened(`${prefix}agent`);
    const before = await conversations();
    const messages = [{ role: 'user', content: `${name} task` }, { role: 'assistant', content: 'An answer.' }];
    const forms = {
      title: { messages },
      tags: { messages },
      follow_up: { messages },
      image_prompt: { messages },
      queries: { messages, type: 'web_search' },
      auto: { messages, type: 'general', prompt: `${name} task` },
      emoji: { prompt: `${name} task` },
      moa: { prompt: `${name} task`, responses: ['One.', 'Two.'], stream: false },
    };
    for (const [task, form] of Object.entries(forms)) {
      const { status, body } = await chat.task(task, { model: `${prefix}agent`, ...form });
      assert.equal(status, 200, `${task}: ${JSON.stringify(body)}`);
      // The fake agent repeats what it was asked.
      assert.match(body.choices[0].message.content, new RegExp(`^echo:.*${name} task`, 's'), task);
    }
    assert.equal(asides(`${name} task`).length, Object.keys(forms).length);
    assert.equal((await conversations()).length, before.length);
  });

  test(`${name}: what the chat asks for is asked about once, and side requests that quote it do nothing`, async () => {
    const desk = await (await browser.person()).paired(served, `${name} aside`);
    const before = await completed('demo');
    const chat = await opened(`${prefix}demo`);
    await chat.send('run `touch acted`');
    await desk.waiting('touch acted').getByRole('button', { name: 'Deny', exact: true }).click();
    await chat.answer();
    // A question of a side request would wait for a person.
    await until('the chat and three side requests', async () => (await completed('demo')) === before + 4);
    assert.deepEqual(await desk.questions(), []);
    assert.ok(!existsSync(served.at('work', 'acted')));
    await desk.page.close();
  });
}
