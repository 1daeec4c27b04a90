"""Real packages with a small agent in them, made on the spot, and a registry that names them. No network."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import platform
import shlex
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

__all__ = ["SOURCE", "archive", "binary", "entry", "npm_package", "registry", "sha256", "wheel"]

SOURCE = Path(__file__).with_name("acp_agent.py").read_text()
_JS = """\
#!/usr/bin/env node
const lines = require("node:readline").createInterface({ input: process.stdin });
lines.on("line", (line) => {
  const { id, method } = JSON.parse(line);
  if (method !== "initialize") return;
  const agentInfo = { name: "packaged", version: "VERSION" };
  console.log(JSON.stringify({ jsonrpc: "2.0", id, result: { protocolVersion: 1, agentInfo } }));
});
"""
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


def _tar(path: Path, files: dict[str, str]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(text.encode()), 0o755
            tar.addfile(info, io.BytesIO(text.encode()))
    return path


def archive(folder: Path, version: str) -> Path:
    # Through a shell: a line that begins with #! cannot name an interpreter in a folder with a space in its name.
    program = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$(dirname "$0")/agent.py" "$@"\n'
    files = {"bin/agent": program, "bin/agent.py": SOURCE, "README": "An agent."}
    return _tar(folder / f"agent-{version}.tar.gz", files)


def npm_package(folder: Path, version: str, *, works: bool = True) -> Path:
    """`scripts` must not run: they would leave a file behind, with a secret in it if they get that."""
    program = _JS.replace("VERSION", version) if works else "#!/usr/bin/env node\nprocess.exit(4);\n"
    manifest = {
        "name": "@packaged/agent",
        "version": version,
        "bin": {"agent": "main.js"},
        "scripts": {
            "postinstall": "node -e \"require('fs').writeFileSync('script-has-run', process.env.SERVER_KEY || '')\""
        },
    }
    files = {"package/package.json": json.dumps(manifest), "package/main.js": program}
    return _tar(folder / f"packaged-agent-{version}.tgz", files)


def wheel(folder: Path, version: str, *, works: bool = True) -> Path:
    info = f"packaged_agent-{version}.dist-info"
    files = {
        "packaged_agent.py": SOURCE if works else "raise SystemExit('a part of me is missing')\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: packaged-agent\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[console_scripts]\npackaged-agent = packaged_agent:main\n",
    }
    record = [f"{name},sha256={_record_hash(text)},{len(text.encode())}" for name, text in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""])
    path = folder / f"packaged_agent-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as zipped:
        for name, text in files.items():
            zipped.writestr(name, text)
    return path


def _record_hash(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def entry(version: str, distribution: dict[str, Any], **facts: Any) -> dict[str, Any]:
    meta = {"_meta": {"dragoman": facts}} if facts else {}
    return {
        "id": "packaged",
        "name": "Packaged agent",
        "version": version,
        "description": "An agent of the tests.",
        "distribution": distribution,
        **meta,
    }


def binary(path: Path, options: dict[str, Any], digest: str | None = None) -> dict[str, Any]:
    machine = platform.machine().lower()
    target: dict[str, Any] = {"archive": path.as_uri(), "cmd": "./bin/agent", "args": [json.dumps(options)]}
    if digest is not None:
        target["sha256"] = digest
    return {"binary": {f"{sys.platform}-{_MACHINES.get(machine, machine)}": target}}


def registry(path: Path, *entries: dict[str, Any]) -> Path:
    path.write_text(json.dumps({"version": "1.0.0", "agents": entries, "extensions": []}))
    return path
