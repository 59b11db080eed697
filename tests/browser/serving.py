"""Serves a folder on this machine, compressed as a real server would, and counts what it sends."""

import contextlib
import gzip
import threading
from functools import cache
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

_TEXT = {".html", ".css", ".js", ".json", ".svg", ".xml", ".txt", ".map", ".py", ".cu", ".md"}


@cache
def _compressed(path, _changed):
    return gzip.compress(Path(path).read_bytes(), compresslevel=6, mtime=0)


class _Handler(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # head and body leave together

    def do_GET(self):
        """Send a file, text as gzip."""
        path = Path(self.translate_path(self.path))
        if path.is_dir():
            path /= "index.html"
        if not path.is_file():
            self.send_error(404)
            return
        squeezed = path.suffix in _TEXT
        content = _compressed(path, path.stat().st_mtime_ns) if squeezed else path.read_bytes()
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(path))
        if squeezed:
            self.send_header("Content-Encoding", "gzip")
        if path.suffix == ".woff2":
            self.send_header("Cache-Control", "max-age=600")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        with contextlib.suppress(ConnectionError):
            self.wfile.write(content)

    def log_message(self, *_words):
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, *_request):
        """A browser that goes away is no error."""


@contextlib.contextmanager
def served(root):
    """Serve the folder `root` while this is open; gives the address of its top."""
    with _Server(("127.0.0.1", 0), lambda *words: _Handler(*words, directory=root)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
