"""Files are whole or not there, and a full disk is told in words."""

import errno

import numpy as np
import pytest

import tamis
from tamis.files import load_arrays, replacing, save_arrays


def test_same_arrays_same_bytes(tmp_path):
    for name in ("a", "b"):
        save_arrays(tmp_path / name, {"x": np.arange(3.0), "word": np.array("é")})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert load_arrays(tmp_path / "a")["x"].tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "kept"
    path.write_text("old")

    def write():
        with replacing(path) as stream:
            stream.write(b"half")
            raise error

    with pytest.raises(tamis.StudyError if isinstance(error, OSError) else KeyboardInterrupt):
        write()
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(tamis.StudyError, match=r"cannot write .* then run again"):
        save_arrays(tmp_path / "file" / "x.npz", {})
