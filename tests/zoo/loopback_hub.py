"""As much of the Hugging Face hub as pushing and pulling takes, on this machine's loopback address."""

import base64
import json
from hashlib import sha1
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


class LoopbackHub:
    """Datasets by name, each a dictionary of files. The requests are noted as ``METHOD path``.

    Args:
        token: what writing takes.
    """

    def __init__(self, token: str = "hf_test") -> None:
        self.datasets: dict[str, dict[str, bytes]] = {}
        self.messages: list[str] = []
        self.requests: list[str] = []
        self.token = token
        hub = self

        class Handler(_Handler):
            pass

        Handler.hub = hub
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        Thread(target=self._server.serve_forever, daemon=True).start()

    def commit(self, repo: str) -> str:
        """A name that changes with the content."""
        return sha1(repr(sorted(self.datasets[repo].items())).encode()).hexdigest()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    hub: LoopbackHub
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.hub.requests.append(f"POST {self.path}")
        if self.headers.get("Authorization") != f"Bearer {self.hub.token}":
            self._json(403, {"error": "this token may not write"})
        elif self.path == "/api/repos/create":
            given = json.loads(body)
            assert given["type"] == "dataset"
            repo = f"{given.get('organization') or 'somebody'}/{given['name']}"
            status = 409 if repo in self.hub.datasets else 200
            self.hub.datasets.setdefault(repo, {})
            self._json(status, {"url": f"{self.hub.endpoint}/datasets/{repo}"})
        elif self.path == "/api/validate-yaml":  # of cards
            assert json.loads(body)["content"].startswith("---\n")
            self._json(200, {"errors": [], "warnings": []})
        elif "/preupload/" in self.path:
            files = [each["path"] for each in json.loads(body)["files"]]
            modes = [{"path": path, "uploadMode": "regular", "shouldIgnore": False} for path in files]
            self._json(200, {"files": modes})
        else:
            self._commit([json.loads(line) for line in body.splitlines()])

    def _commit(self, operations: list[dict]) -> None:
        repo = self.path.removeprefix("/api/datasets/").partition("/commit/")[0]
        for operation in operations:
            value = operation["value"]
            if operation["key"] == "header":
                self.hub.messages.append(value["summary"])
            else:
                self.hub.datasets[repo][value["path"]] = base64.b64decode(value["content"])
        url = f"{self.hub.endpoint}/datasets/{repo}/commit/{self.hub.commit(repo)}"
        self._json(
            200, {"commitUrl": url, "commitOid": self.hub.commit(repo), "commitMessage": "", "success": True}
        )

    def do_HEAD(self) -> None:
        self._send(body=False)

    def do_GET(self) -> None:
        self._send(body=True)

    def _send(self, body: bool) -> None:
        self.hub.requests.append(f"{self.command} {self.path}")
        repo, _, rest = self.path.removeprefix("/datasets/").partition("/resolve/")
        files = self.hub.datasets.get(repo)
        content = None if files is None else files.get(rest.partition("/")[2])
        if content is None:
            code = "RepoNotFound" if files is None else "EntryNotFound"
            self._json(404, {"error": code}, {"X-Error-Code": code}, body)
            return
        first = int((self.headers.get("Range") or "bytes=0-")[6:].rstrip("-"))
        self.send_response(206 if first else 200)
        self.send_header("ETag", f'"{sha1(content).hexdigest()}"')
        self.send_header("X-Repo-Commit", self.hub.commit(repo))
        self.send_header("Content-Length", str(len(content) - first))
        self.end_headers()
        if body:
            self.wfile.write(content[first:])

    def _json(
        self, status: int, value: object, headers: dict[str, str] | None = None, body: bool = True
    ) -> None:
        content = json.dumps(value).encode()
        self.send_response(status)
        for name, text in (headers or {}).items():
            self.send_header(name, text)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass
