"""An author sees what was saved, or what to mend; the server never ends and never hangs."""

import threading

import pytest

from warplog.fault import Fault
from warplog.preview import Preview, fault_page
from warplog.watch import Watch


class Site:
    """Counts what a preview asks for."""

    def __init__(self):
        self.asked, self.error, self.takes = [], None, True
        self.preview = Preview(self.take_in, self.refresh, self.build)

    def take_in(self, changed):
        self.asked.append(("take in", *sorted(map(str, changed))))
        return self.takes

    def refresh(self, address):
        self.asked.append(("refresh", address))
        self.fail()

    def build(self):
        self.asked.append(("build",))
        self.fail()

    def fail(self):
        if self.error:
            raise self.error

    def get(self, path, mount="/"):
        """What a browser gets: the words of the server, or the page in their place."""

        def server(_environ, start_response):
            start_response("200 OK", [])
            return [b"as built"]

        application = self.preview.application(server, mount)
        return b"".join(application({"PATH_INFO": path}, lambda *_: None)).decode()


@pytest.fixture
def site():
    return Site()


@pytest.fixture
def edited(site):
    """A site in which a file was edited and taken in."""
    site.preview.hear({"entries/x.md"})
    site.preview.rebuild()
    site.asked.clear()
    return site


def test_what_is_fresh_is_handed_out_as_it_is(site):
    assert site.get("/entries/x.html") == "as built"
    assert site.asked == []


def test_after_an_edit_a_page_is_made_when_it_is_asked_for_and_once(edited):
    assert edited.get("/entries/x.html") == "as built"
    edited.get("/entries/x.html")
    edited.get("/")
    assert edited.asked == [("refresh", "entries/x.html"), ("refresh", "index.html")]


def test_the_site_may_lie_below_a_path(edited):
    edited.get("/journal/a%20b.html", mount="/journal/")
    edited.get("/elsewhere.html", mount="/journal/")
    edited.get("/livereload/1/2")
    assert edited.asked == [("refresh", "a b.html")]


def test_what_cannot_be_taken_in_is_built_whole(site):
    site.takes = False
    site.preview.hear({"site_src/x.md"})
    site.preview.rebuild()
    assert site.asked == [("take in", "site_src/x.md"), ("build",)]
    site.get("/entries/x.html")
    assert ("refresh", "entries/x.html") not in site.asked


def test_a_change_that_nobody_heard_of_is_built_whole(site):
    site.preview.rebuild()
    assert site.asked == [("build",)]


@pytest.mark.parametrize("error", [ValueError("<b> at line 7"), SystemExit("<b> at line 7")])
def test_a_build_that_fails_is_a_page_until_it_is_mended(site, error):
    site.error = error
    site.preview.rebuild()
    assert "&lt;b&gt; at line 7" in site.get("/entries/x.html")
    assert "To be mended" in site.get("/")
    site.error = None
    site.preview.rebuild()
    assert site.get("/entries/x.html") == "as built"


def test_the_cause_of_a_failure_is_told(site):
    site.error = ValueError("Aborted")
    site.error.__cause__ = KeyError("\x1b[31mmkdocs.yml:3\x1b[0m")
    site.preview.rebuild()
    assert "mkdocs.yml:3" in site.get("/")
    assert "\x1b" not in site.get("/")


def test_a_page_that_cannot_be_made_says_why_and_the_next_edit_builds_all(edited):
    edited.error = ValueError("no template")
    assert "no template" in edited.get("/entries/x.html")
    edited.error = None
    edited.preview.hear({"entries/x.md"})
    edited.preview.rebuild()
    assert edited.asked[-1] == ("build",)
    assert edited.get("/entries/x.html") == "as built"


def test_a_fault_page_escapes_what_it_shows():
    assert "<script>" not in fault_page([Fault("x.md:1", "<script>", "leave it out")])


def test_a_watch_tells_what_appeared_changed_and_went(tmp_path):
    kept, gone = tmp_path / "kept.md", tmp_path / "gone.md"
    for path in (kept, gone):
        path.write_text("one")
    told, heard = set(), threading.Event()

    def tell(changed):
        told.update(changed)
        if len(told) == len({"kept", "gone", "new"}):
            heard.set()

    watch = Watch([tmp_path, tmp_path / "no such folder"], tell)
    watch.start()
    kept.write_text("three")
    gone.unlink()
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/new.json").write_text("{}")
    (tmp_path / ".hidden.part").write_text("{}")
    assert heard.wait(60)
    watch.end()
    watch.join(60)
    assert told == {kept, gone, tmp_path / "sub/new.json"}


def test_an_address_that_is_taken_is_one_line_with_another_to_use():
    """MkDocs itself would end with a traceback."""
    import socket

    from mkdocs.exceptions import PluginError
    from mkdocs.livereload import LiveReloadServer

    from warplog.serving import _refuse_taken

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server = LiveReloadServer(lambda: None, "127.0.0.1", port, ".")
        says = rf"cannot serve at 127\.0\.0\.1:{port} \(Address already in use\); .* -- -a 127\.0\.0\.1:"
        with pytest.raises(PluginError, match=says):
            _refuse_taken(server)
    _refuse_taken(server)
    server.server_close()
