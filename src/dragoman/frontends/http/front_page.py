"""The page that the server's address shows in a browser, with links to the API."""

from __future__ import annotations

from dragoman import __version__

__all__ = ["FRONT_PAGE"]

FRONT_PAGE = f"""\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Dragoman</title>
<h1>Dragoman {__version__}</h1>
<p>Coding agents as language models, for programs that speak Open Responses or OpenAI's chat completions.
There is nothing to click here: give such a program this address with <code>/v1</code> behind it.</p>
<ul>
<li><a href="/v1/models">/v1/models</a>: the models that it can ask for
<li><a href="/openapi.json">/openapi.json</a>: all that is served, for programs
<li><a href="/healthz">/healthz</a>: whether the server is up
<li><a href="/readyz">/readyz</a>: whether it can take requests now
</ul>
<p>If the server has API keys, the list of models needs one: <code>Authorization: Bearer KEY</code>.
<code>docs/http.md</code> of the project says how to set up clients, and <code>dragoman serve --help</code> the server.</p>
</html>
"""
