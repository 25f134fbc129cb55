"""Tuned schedules as text: what a key depends on, damaged files, several writers."""

import subprocess
import sys
from pathlib import Path

import pytest
from attrs import evolve

from tracejit.autotune.choose import choose, default_schedule
from tracejit.autotune.database import (
    HEADER,
    Database,
    Entry,
    current_database,
    database_path,
    kernel_key,
    kernel_summary,
    parse_entry,
)
from tracejit.backends.base import Target
from tracejit.ir.schedule import parse_schedule
from tracejit.ir.text import parse_kernel
from tracejit.support.errors import UserError

TARGET = Target("cpu", 256, 2, device="some processor", driver="llvm 20")
TEXT = """
kernel double(x: f64[1000] C, out: f64[1000] C out) {
  for %i in 0..1000 {
    %a = load x[%i]
    %b = add %a %a
    store out[%i] = %b
  }
}
"""
KERNEL = parse_kernel(TEXT)


def entry(key: str = "a", schedule: str = "vector L0 4 2", kernel: str = "double: f64[1000]") -> Entry:
    return Entry(key * 64, parse_schedule(schedule), 1.5, 2.25, "cpu, some processor", kernel)


def test_entries_are_lines_that_read_back():
    line = str(entry())
    assert line == f"{'a' * 64} | vector L0 4 2 | 1.50 us, was 2.25 us | cpu, some processor | double: f64[1000]"
    assert str(parse_entry(line)) == line
    assert parse_entry(line).schedule == entry().schedule
    assert "|" not in str(entry(kernel="a | b")).split(" | ", 4)[4]


def test_the_key_follows_the_code_not_the_names():
    renamed = parse_kernel(
        TEXT.replace("double", "other").replace("x:", "in3:").replace("load x", "load in3").replace("%a", "%value")
    )
    assert kernel_key(renamed, TARGET) == kernel_key(KERNEL, TARGET)
    assert kernel_summary(renamed) == "other: f64[1000], f64[1000]"


@pytest.mark.parametrize(
    "other",
    [
        TEXT.replace("1000", "1001"),
        TEXT.replace("f64", "f32"),
        TEXT.replace("add %a %a", "mul %a %a"),
        TEXT.replace("x: f64[1000] C", "x: f64[1000] strided"),
    ],
)
def test_the_key_depends_on_extents_dtypes_operations_and_layouts(other: str):
    assert kernel_key(parse_kernel(other), TARGET) != kernel_key(KERNEL, TARGET)


@pytest.mark.parametrize(
    "change", [{"device": "another"}, {"driver": "llvm 21"}, {"name": "opencl"}, {"vector_bits": 512}]
)
def test_the_key_depends_on_the_target(change: dict[str, object]):
    assert kernel_key(KERNEL, evolve(TARGET, **change)) != kernel_key(KERNEL, TARGET)


def test_the_key_depends_on_the_version_of_the_space(monkeypatch: pytest.MonkeyPatch):
    before = kernel_key(KERNEL, TARGET)
    monkeypatch.setattr("tracejit.autotune.database.SPACE_VERSION", 10**6)
    assert kernel_key(KERNEL, TARGET) != before


def test_updates_merge_replace_and_remove(tmp_path: Path):
    path = tmp_path / "new folder" / "s.txt"
    one, two = Database(path), Database(path)
    assert len(one) == 0
    one.update([entry("a"), entry("b")])
    two.update([entry("c"), entry("b", "vector L0 8 1")])
    assert {e.key[0]: str(e.schedule) for e in one.entries()} == {
        "a": "vector L0 4 2",
        "b": "vector L0 8 1",
        "c": "vector L0 4 2",
    }
    one.update([], remove=["a" * 64])
    assert two.get("a" * 64) is None
    assert path.read_text().splitlines()[0] == HEADER
    assert sorted(p.name for p in path.parent.iterdir()) == ["s.txt"]  # neither locks nor half-written files stay


def test_changes_of_the_file_are_seen(tmp_path: Path):
    path = tmp_path / "s.txt"
    database = Database(path)
    database.update([entry("a")])
    path.write_text(f"{HEADER}\n{entry('d')}\n")
    assert [e.key[0] for e in database.entries()] == ["d"]
    path.unlink()
    assert len(database) == 0


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("nonsense", "1 fields, not 5"),
        (str(entry())[:90], "3 fields, not 5"),
        (str(entry()).replace("vector", "vectr"), "not a schedule directive"),
        (str(entry()).replace("1.50", "fast"), "could not convert"),
        ("xyz" + str(entry())[3:], "the key is not a hash"),
    ],
    ids=["no fields", "cut off", "bad schedule", "bad time", "bad key"],
)
def test_a_damaged_line_is_skipped_with_a_warning(tmp_path: Path, line: str, reason: str):
    path = tmp_path / "s.txt"
    path.write_text(f"{HEADER}\n{entry('a')}\n{line}\n\n{entry('b')}\n")
    with pytest.warns(RuntimeWarning, match=f"line 3 is not a tuned schedule and is skipped: {reason}"):
        assert [e.key[0] for e in Database(path).entries()] == ["a", "b"]


def test_bytes_that_are_no_text_do_no_harm(tmp_path: Path):
    path = tmp_path / "s.txt"
    path.write_bytes(b"\xff\xfe\x00 | x\n" + str(entry()).encode())
    with pytest.warns(RuntimeWarning, match="line 1"):
        assert len(Database(path)) == 1


def test_a_path_that_is_no_file_is_refused(tmp_path: Path):
    with pytest.raises(UserError, match="is no file"):
        Database(tmp_path).update([entry()])


def test_writers_in_several_processes_lose_nothing(tmp_path: Path):
    path = tmp_path / "s.txt"
    source = (
        "import sys; from pathlib import Path\n"
        "from tracejit.autotune.database import Database, Entry\n"
        "from tracejit.ir.schedule import parse_schedule\n"
        "for n in range(20):\n"
        "    key = f'{int(sys.argv[2]):02x}{n:02x}' * 16\n"
        "    Database(Path(sys.argv[1])).update([Entry(key, parse_schedule('vector L0 4 1'), 1.0, 2.0, 't', 'k')])\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", source, str(path), str(n)]) for n in range(3)]
    assert [w.wait(timeout=60) for w in writers] == [0, 0, 0]
    assert len(Database(path)) == 60


def test_the_path_comes_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TRACEJIT_TUNE_DB", "")
    assert database_path() is None
    assert current_database() is None
    monkeypatch.setenv("TRACEJIT_TUNE_DB", str(tmp_path / "x"))
    assert database_path() == tmp_path / "x"
    monkeypatch.delenv("TRACEJIT_TUNE_DB")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    assert database_path() == tmp_path / "tracejit" / "schedules.txt"


def test_choose_takes_the_entry_of_the_kernel(database: Path):
    assert choose(KERNEL, TARGET) == default_schedule(KERNEL, TARGET)
    tuned = parse_schedule("vector L0 2 1")
    Database(database).update([Entry(kernel_key(KERNEL, TARGET), tuned, 1.0, 2.0)])
    assert choose(KERNEL, TARGET) == tuned
    assert choose(KERNEL, evolve(TARGET, device="another")) == default_schedule(KERNEL, TARGET)


def test_an_entry_that_is_not_legal_is_passed_over(database: Path):
    Database(database).update([Entry(kernel_key(KERNEL, TARGET), parse_schedule("vector L7 2 1"), 1.0, 2.0)])
    with pytest.warns(RuntimeWarning, match="the tuned schedule of double in .* is not legal: .* has no loop L7"):
        assert choose(KERNEL, TARGET) == default_schedule(KERNEL, TARGET)
