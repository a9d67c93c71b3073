"""diffgen.runs.opening: nothing but regular files, and in a folder of ours nothing through a link."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from diffgen.errors import UserError
from diffgen.runs.opening import check_regular, inside, open_in_place, open_regular, read_bytes, read_text

pytestmark = pytest.mark.skipif(os.name != "posix", reason="Windows has neither such links nor pipes")


@pytest.fixture
def places(tmp_path: Path) -> Iterator[dict[str, Path]]:
    """One of each kind; a pipe without a writer would be waited for without end."""
    found = {name: tmp_path / name for name in ("pipe", "link", "folder", "socket", "nowhere")}
    os.mkfifo(found["pipe"])
    (tmp_path / "file").write_text("mine")
    found["link"].symlink_to(tmp_path / "file")
    found["nowhere"].symlink_to(tmp_path / "gone")
    found["folder"].mkdir()
    found["device"] = Path("/dev/zero")
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        os.chdir(tmp_path)  # its path must be short
        server.bind("socket")
        os.chdir(here)
        yield found


@pytest.mark.parametrize("name", ["pipe", "folder", "socket", "device"])
@pytest.mark.parametrize("opened", [open_regular, read_bytes, read_text, open_in_place])
def test_what_is_no_file_is_refused(places: dict[str, Path], name: str, opened: Callable[[Path], object]) -> None:
    with pytest.raises(OSError) as caught:
        opened(places[name])
    assert caught.value.strerror == f"it is a {name}"


def test_a_link_is_followed_only_where_the_user_may_have_made_it(places: dict[str, Path]) -> None:
    assert read_text(places["link"]) == "mine"
    for opened in (lambda path: read_bytes(path, links=False), open_in_place):
        with pytest.raises(OSError, match="symbolic link"):
            opened(places["link"])
    with pytest.raises(OSError, match="symbolic link"):
        open_in_place(places["nowhere"])
    assert not places["nowhere"].exists()


def test_a_file_with_a_second_name_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    os.link(tmp_path / "mine", tmp_path / "lock")
    with pytest.raises(OSError, match="hard link"):
        open_in_place(tmp_path / "lock")
    assert (tmp_path / "mine").read_text() == "mine"


def test_a_file_is_made_and_written_over_in_place(tmp_path: Path) -> None:
    for content in (b"first", b"second"):
        with open_in_place(tmp_path / "new") as file:
            file.write(content)
    assert (tmp_path / "new").read_bytes() == b"second"


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="This system has no /proc.")
def test_views_into_the_system_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/proc/self/status")
    for path in (Path("/proc/self/status"), Path("/proc/self/../self/status"), tmp_path / "link"):
        with pytest.raises(OSError, match="view into the system"):
            check_regular(path)
        with pytest.raises(OSError, match="view into the system"):
            read_bytes(path)
    # what one of them leads to is looked at by where it leads
    (tmp_path / "real").write_bytes(b"contents")
    with (tmp_path / "real").open("rb") as file:
        assert read_bytes(Path(f"/proc/self/fd/{file.fileno()}")) == b"contents"


def test_a_length_has_an_end(tmp_path: Path) -> None:
    (tmp_path / "long").write_bytes(bytes(101))
    assert len(read_bytes(tmp_path / "long", longest=101)) == 101
    with pytest.raises(OSError, match="longer than 100 bytes"):
        read_bytes(tmp_path / "long", longest=100)


def test_line_ends_and_marks_of_windows(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"\xef\xbb\xbfa\r\nb\rc\n")
    assert read_text(tmp_path / "text", encoding="utf-8-sig") == "a\nb\nc\n"


def test_no_step_below_a_folder_is_a_link(places: dict[str, Path], tmp_path: Path, told: Callable[..., None]) -> None:
    run = tmp_path / "run"
    (run / "images").mkdir(parents=True)
    (run / "away").symlink_to(tmp_path)
    (run / "lock").symlink_to(tmp_path / "file")
    os.mkfifo(run / "pipe")
    assert inside(run, "images", "new.png") == run / "images" / "new.png"
    assert inside(run, "missing", "new.png") == run / "missing" / "new.png"
    for names in (("away",), ("away", "file"), ("lock",), ("pipe",)):
        with pytest.raises(UserError, match="remove it"):
            inside(run, *names)
    with pytest.raises(UserError, match="is no path") as caught:
        inside(run, "a\0b")
    told("Run folders", "a name with a null character", caught.value)
    # the folder itself is what the user named
    (tmp_path / "latest").symlink_to(run)
    assert inside(tmp_path / "latest", "images").is_dir()
