// A person chats with an agent in Open WebUI, over both kinds of connection.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '../console_browser/children.mjs';
import { run, steps } from '../console_browser/clients.mjs';
import { browser, CONNECTIONS, opened, prompted, served } from './suite.mjs';

for (const { name, prefix } of CONNECTIONS) {
  const mark = (word) => `${name} ${word}`;
  const agent = () => opened(`${prefix}agent`);

  test(`${name}: the answer is shown while it comes`, async () => {
    const chat = await agent();
    await chat.send(steps(['say', mark('early')], ['gate', `${prefix}late`], ['say', ' and late']));
    await chat.shows(mark('early'));
    assert.ok(await chat.stop.isVisible());
    served.open(`${prefix}late`);
    assert.ok((await chat.answer()).includes(`${mark('early')} and late`));
    assert.deepEqual(chat.strangers, []);
  });

  test(`${name}: the second turn goes on in the agent's session`, async () => {
    const chat = await agent();
    await chat.ask(steps(['think', 'a thought'], ['say', mark('turn one')]));
    await chat.ask(steps(['say', mark('turn two')]));
    const [first, second, ...more] = prompted(mark('turn'));
    assert.equal(first.session, second.session);
    assert.deepEqual(more, []);
  });

  test(`${name}: thinking is folded until a person opens it`, async () => {
    const chat = await agent();
    const thought = mark('a hidden thought');
    const said = await chat.ask(steps(['think', thought], ['say', 'The answer.']));
    assert.ok(said.includes('The answer.') && !said.includes(thought), said);
    await chat.answers.last().getByText(/^Thought/).click();
    await chat.shows(thought);
  });

  test(`${name}: regenerate prompts the agent again`, async () => {
    const chat = await agent();
    await chat.ask(steps(['say', mark('again')]));
    await chat.regenerate.click();
    await chat.page.getByText('Try Again', { exact: true }).click();
    await until('the second prompt', () => prompted(mark('again')).length === 2);
    await chat.page.getByText('2/2').waitFor();
    assert.ok((await chat.answer()).includes(mark('again')));
  });

  test(`${name}: of two chats with the same beginning, each goes on in its own session`, async () => {
    const beginning = steps(['say', mark('twins')]);
    const chat = await agent();
    await chat.ask(beginning);
    const first = chat.page.url();
    await agent();
    await chat.ask(beginning);
    const second = chat.page.url();
    // The older one first: without evidence, the newer one is taken for it.
    await chat.returnTo(first);
    await chat.ask(steps(['say', mark('elder')]));
    await chat.returnTo(second);
    await chat.page.getByText(mark('elder')).first().waitFor({ state: 'detached' });
    await chat.ask(steps(['say', mark('younger')]));
    const [elder, younger] = prompted(mark('twins')).map(({ session }) => session);
    assert.deepEqual(prompted(mark('younger')).map(({ session }) => session), [younger]);
    assert.deepEqual(prompted(mark('elder')).map(({ session }) => session), [elder]);
  });

  test(`${name}: the stop button cancels the agent's turn`, async () => {
    const chat = await agent();
    await chat.send(steps(['say', mark('stop me')], ['hang']));
    await chat.shows(mark('stop me'));
    const [{ session }] = prompted(mark('stop me'));
    await chat.stop.click();
    await until('the cancellation', () => served.journal('session/cancel').some(({ params }) => params.sessionId === session));
  });

  test(`${name}: a question waits at the console, and the answer goes on when a person has decided on a phone, through TLS`, async () => {
    const phone = await (await browser.person({ phone: true })).paired(served, name);
    assert.match(phone.page.url(), /^https:/);
    const chat = await agent();
    await chat.send(steps(['say', 'Before. '], run(`echo ${name}`), ['say', ` After ${name}.`]));
    await chat.shows('Before.');
    await phone.allow(`echo ${name}`);
    const said = await chat.answer();
    assert.ok(said.includes('the-allow_once') && said.includes(` After ${name}.`), said);
    assert.equal(prompted(` After ${name}.`).length, 1);
  });

  test(`${name}: an agent calls Open WebUI's tools`, async () => {
    const chat = await opened(`${prefix}demo`);
    const said = await chat.ask('!call get_current_timestamp {}');
    assert.match(said, /current_iso|timestamp/);
  });

  test(`${name}: a picture of the agent is shown where the format has it, and the next turn goes on in its session`, async () => {
    const chat = await opened(`${prefix}demo`);
    await chat.ask('Draw a picture.');
    const widths = () => chat.answers.last().locator('img').evaluateAll((all) => all.map((image) => image.naturalWidth));
    // Of a response, Open WebUI shows no pictures: they are items that it does not know.
    if (name === 'chat completions') {
      // That of the demo agent is so wide.
      await until('the picture', async () => (await widths()).includes(16));
    }
    const said = await chat.ask('!history');
    assert.match(said, /The history has 2 messages/);
    assert.doesNotMatch(said, /v1\/files/);
  });
}
