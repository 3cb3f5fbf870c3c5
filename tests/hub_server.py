"""A small Hugging Face Hub on loopback, with faults on demand, for tests of the real clients.

It answers what they ask for data sets: revisions, file listings, `resolve` with ETag and ranges, the redirect of large
files to another address, pushes; and plain files under `/files`. Every request is logged with the bytes
of its answer.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit


@dataclass
class Repo:
    """A data set with one commit."""

    files: dict[str, bytes]
    commit: str = "c0ffee" * 6 + "c0de"
    revisions: tuple[str, ...] = ("main",)
    card: dict[str, Any] = field(default_factory=dict)
    large: bool = True  # kept outside Git, behind a redirect
    claimed_bytes: int | None = None  # size of every file, as the listing says it
    gated: bool = False
    private: bool = False


@dataclass
class Fault:
    """What goes wrong with the next `times` requests whose path holds `match`."""

    match: str
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    cut_after: int | None = None  # bytes of the body, then the connection is dropped
    damage: bool = False  # a wrong byte
    times: int = 1


@dataclass
class Logged:
    """One request and its answer."""

    method: str
    path: str
    range: str
    token: str
    status: int = 0
    sent_bytes: int = 0


class HubServer:
    """The server; a context manager."""

    def __init__(self) -> None:
        self.repos: dict[str, Repo] = {}
        self.files: dict[str, bytes] = {}  # path under /files -> content
        self.faults: list[Fault] = []
        self.log: list[Logged] = []
        self.blobs: dict[str, bytes] = {}  # large files on their way in, by SHA-256
        self.ranges = True  # whether parts of files are served
        self.before: Callable[[Logged], None] = lambda request: None  # called before each answer
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> HubServer:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *args: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def sent_bytes(self, match: str = "") -> int:
        """Bytes of the answers to requests whose path holds `match`."""
        return sum(entry.sent_bytes for entry in self.log if match in entry.path)

    def fault_of(self, path: str) -> Fault | None:
        """The fault that strikes a request."""
        for fault in self.faults:
            if fault.match in path and fault.times:
                fault.times -= 1
                return fault
        return None


def _listing(name: str, repo: Repo) -> dict[str, Any]:
    siblings = []
    for path, content in sorted(repo.files.items()):
        size = repo.claimed_bytes or len(content)
        blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
        entry: dict[str, Any] = {"rfilename": path, "size": size, "blobId": blob}
        if repo.large:
            entry["lfs"] = {"sha256": _sha256(content), "size": size, "pointerSize": 134}
        siblings.append(entry)
    return {
        "id": name,
        "sha": repo.commit,
        "siblings": siblings,
        "cardData": repo.card,
        "gated": "auto" if repo.gated else False,
        "private": repo.private,
        "tags": [],
        "downloads": 0,
        "likes": 0,
    }


@lru_cache(maxsize=64)
def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _mode(path: str) -> str:
    """How a file is pushed."""
    return "lfs" if path.endswith(".parquet") else "regular"


def _handler(hub: HubServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        fault: Fault | None = None
        entry: Logged

        def log_message(self, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            self._answer()

        def do_HEAD(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def do_PUT(self) -> None:
            self._answer()

        def _answer(self) -> None:
            path = unquote(urlsplit(self.path).path)
            self.entry = Logged(
                self.command, path, self.headers.get("Range", ""), self.headers.get("Authorization", "")
            )
            hub.log.append(self.entry)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            hub.before(self.entry)
            self.fault = hub.fault_of(path)
            if self.fault and self.fault.status:
                self._send(self.fault.status, b"", self.fault.headers)
            elif self.command == "PUT":
                hub.blobs[path.removeprefix("/put/")] = body
                self._send(200, b"")
            elif self.command == "POST":
                self._post(path, body)
            elif path.startswith("/api/datasets/"):
                self._api(path.removeprefix("/api/datasets/"))
            elif path.startswith("/datasets/"):
                self._resolve(path.removeprefix("/datasets/"))
            elif path.startswith("/cdn/"):
                blobs = {_sha256(c): c for r in hub.repos.values() for c in r.files.values()}
                self._content(blobs[path.removeprefix("/cdn/")])
            elif path.startswith("/files/") and path.removeprefix("/files/") in hub.files:
                self._content(hub.files[path.removeprefix("/files/")])
            else:
                self._send(404, b"not found")

        def _repo(self, name: str, revision: str, metadata: bool) -> Repo | None:
            """The data set, where the asker may see this of it; else the Hub's refusal is sent."""
            repo = hub.repos.get(name)
            token = self.entry.token
            if token == "Bearer bad":
                self._send(401, b"{}", {"X-Error-Message": "Invalid credentials in Authorization header"})
            elif repo is None or (repo.private and not token):
                self._send(401 if not token else 404, b"{}", {"X-Error-Code": "RepoNotFound"})
            elif repo.gated and token != "Bearer accepted" and not metadata:
                self._send(403 if token else 401, b"{}", {"X-Error-Code": "GatedRepo"})
            elif revision not in (*repo.revisions, repo.commit):
                self._send(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
            else:
                return repo
            return None

        def _api(self, rest: str) -> None:
            owner, name, *more = rest.split("/")
            what, place = (more[0], more[1:]) if more else ("revision", ["main"])
            revision = place[0] if what == "tree" else "/".join(place)
            repo = self._repo(f"{owner}/{name}", revision, metadata=True)
            if repo is None:
                return
            listing: Any = _listing(f"{owner}/{name}", repo)
            if what == "tree":
                folder = "/".join([*place[1:], ""])
                inside = [f for f in listing["siblings"] if f["rfilename"].startswith(folder)]
                if not inside:
                    self._send(404, b"{}", {"X-Error-Code": "EntryNotFound"})
                    return
                listing = [
                    {"type": "file", "path": f["rfilename"], "size": f["size"], "oid": f["blobId"]} for f in inside
                ]
            self._send(200, json.dumps(listing).encode())

        def _resolve(self, rest: str) -> None:
            owner, name, _, tail = rest.split("/", 3)
            repo = hub.repos.get(f"{owner}/{name}")
            known = [r for r in (*repo.revisions, repo.commit) if tail.startswith(f"{r}/")] if repo else []
            revision = known[0] if known else tail.partition("/")[0]
            path = tail.removeprefix(f"{revision}/")
            repo = self._repo(f"{owner}/{name}", revision, metadata=False)
            if repo is None:
                return
            if path not in repo.files:
                self._send(404, b"{}", {"X-Error-Code": "EntryNotFound"})
                return
            content = repo.files[path]
            digest = _sha256(content)
            headers = {"X-Repo-Commit": repo.commit}
            if repo.large:
                linked = {"X-Linked-Etag": f'"{digest}"', "X-Linked-Size": str(len(content))}
                self._send(302, b"", headers | linked | {"Location": f"{hub.url}/cdn/{digest}"})
            else:
                self._content(content, headers)

        def _content(self, content: bytes, headers: dict[str, str] | None = None) -> None:
            headers = {"ETag": f'"{_sha256(content)[:32]}"', "Accept-Ranges": "bytes"} | (headers or {})
            asked = self.headers.get("Range", "")
            same = self.headers.get("If-Range") in (None, headers["ETag"])
            if not asked or not hub.ranges or not same:
                self._send(200, content, headers)
                return
            first, last = asked.removeprefix("bytes=").split("-")
            start, stop = int(first), min(int(last) + 1 if last else len(content), len(content))
            if start >= stop:
                self._send(416, b"", {"Content-Range": f"bytes */{len(content)}"})
                return
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(content)}"
            self._send(206, content[start:stop], headers)

        def _post(self, path: str, body: bytes) -> None:
            """Enough of pushing: a new data set, large files, and commits."""
            if path == "/api/repos/create":
                asked = json.loads(body)
                name = f"{asked.get('organization') or 'me'}/{asked['name']}"
                hub.repos.setdefault(name, Repo({}, large=False))
                answer: Any = {"url": f"{hub.url}/datasets/{name}", "name": name}
            elif path.endswith("/preupload/main"):
                paths = [file["path"] for file in json.loads(body)["files"]]
                answer = {"files": [{"path": p, "uploadMode": _mode(p), "shouldIgnore": False} for p in paths]}
            elif path.endswith("/objects/batch"):
                wanted = json.loads(body)["objects"]
                actions = [{**o, "actions": {"upload": {"href": f"{hub.url}/put/{o['oid']}"}}} for o in wanted]
                answer = {"transfer": "basic", "objects": actions}
            elif path.endswith("/commit/main"):
                name = path.removeprefix("/api/datasets/").removesuffix("/commit/main")
                repo = hub.repos[name]
                for line in map(json.loads, body.splitlines()):
                    if line["key"] == "file":
                        repo.files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
                    elif line["key"] == "lfsFile":
                        repo.files[line["value"]["path"]] = hub.blobs[line["value"]["oid"]]
                repo.commit = hashlib.sha1(body).hexdigest()
                url = f"{hub.url}/datasets/{name}/commit/{repo.commit}"
                answer = {"commitUrl": url, "commitOid": repo.commit, "pullRequestUrl": None, "success": True}
            else:
                answer = {"errors": [], "warnings": []}
            self._send(200, json.dumps(answer).encode())

        def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
            fault = self.fault
            self.entry.status = status
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "HEAD":
                return
            if fault and fault.damage:
                body = body[:-1] + bytes([body[-1] ^ 1])
            if fault and fault.cut_after is not None:
                body = body[: fault.cut_after]
                self.close_connection = True
            try:
                self.wfile.write(body)
                self.wfile.flush()
                self.entry.sent_bytes += len(body)
            except OSError:
                self.close_connection = True

    return Handler
