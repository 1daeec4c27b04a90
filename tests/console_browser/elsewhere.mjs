// A site of an attacker: a web server on another port of this machine, which notes what it is sent.
import { createServer } from 'node:http';

export class Elsewhere {
  /** `pages`: path -> HTML. */
  static async start(pages) {
    const site = new Elsewhere();
    site.server = createServer((request, response) => {
      site.requests.push({ path: request.url, cookie: request.headers.cookie ?? '' });
      response.writeHead(200, { 'content-type': 'text/html; charset=utf-8' }).end(pages[request.url] ?? '');
    });
    await new Promise((resolve) => site.server.listen(0, '127.0.0.1', resolve));
    site.port = site.server.address().port;
    return site;
  }

  requests = [];

  async stop() {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }
}

/** A page that sends this form as soon as it is open: JSON in the name of a field, as text. */
export function formPage(action, body) {
  const name = JSON.stringify(body).replace(/\}$/, ',"x":"').replaceAll('"', '&quot;');
  return `<form method="post" enctype="text/plain" action="${action}"><input name="${name}" value="&quot;}"></form>
    <script>document.forms[0].submit()</script>`;
}

/** A page that calls from a script, in every way that a browser lets it, and writes down what became of it. */
export function fetchPage(url, body) {
  return `<pre id="out"></pre><script type="module">
    const done = [];
    for (const [mode, headers] of [['no-cors', {}], ['no-cors', {'content-type': 'text/plain'}], ['cors', {}],
        ['cors', {'content-type': 'application/json', 'x-dragoman-console': '1'}]]) {
      try {
        const answer = await fetch(${JSON.stringify(url)},
          {method: 'POST', mode, headers, credentials: 'include', body: ${JSON.stringify(JSON.stringify(body))}});
        done.push(mode + ' ' + answer.type + ' ' + answer.status);
      } catch (error) { done.push(mode + ' failed'); }
    }
    document.getElementById('out').textContent = done.join('\\n') + '\\ndone';
  </script>`;
}
