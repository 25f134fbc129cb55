"""The cache of the run time's object files: hits, and everything that must be a miss."""

import ctypes
import os

import pytest

from tracejit.backends.cpu.runtime import object_cache
from tracejit.support.platform import cache_folder

TEXT = "define i32 @answer() {\n  ret i32 42\n}\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TRACEJIT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def answer(library):
    return ctypes.CFUNCTYPE(ctypes.c_int32)(library.address("answer"))()


def test_the_second_load_comes_from_the_cache(folder, monkeypatch):
    assert answer(object_cache.load_cached(TEXT)) == 42
    (entry,) = folder.iterdir()
    assert entry.suffix == ".o"
    monkeypatch.setattr(object_cache.llvm, "load", lambda *a, **k: pytest.fail("compiled again"))
    assert answer(object_cache.load_cached(TEXT)) == 42


@pytest.mark.parametrize(
    "damage", [b"", b"short", lambda data: data[:-7], lambda data: data[:40] + bytes([data[40] ^ 1]) + data[41:]]
)
def test_a_damaged_entry_is_a_miss_and_is_replaced(folder, damage):
    object_cache.load_cached(TEXT)
    (entry,) = folder.iterdir()
    whole = entry.read_bytes()
    entry.write_bytes(damage(whole) if callable(damage) else damage)
    assert answer(object_cache.load_cached(TEXT)) == 42
    assert entry.read_bytes() == whole


def test_an_empty_name_switches_the_cache_off(monkeypatch):
    monkeypatch.setenv("TRACEJIT_CACHE_DIR", "")
    assert cache_folder() is None
    assert answer(object_cache.load_cached(TEXT)) == 42


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    monkeypatch.setenv("TRACEJIT_CACHE_DIR", str(blocked / "cache"))
    assert answer(object_cache.load_cached(TEXT)) == 42


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="this system has no file owners")
def test_an_entry_of_another_owner_is_a_miss(folder, monkeypatch):
    object_cache.load_cached(TEXT)
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 7)
    calls = []
    load = object_cache.llvm.load
    monkeypatch.setattr(object_cache.llvm, "load", lambda *a, **k: calls.append(1) or load(*a, **k))
    assert answer(object_cache.load_cached(TEXT)) == 42
    assert calls
