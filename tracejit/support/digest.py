"""Hashes that name cache entries.  Taken from the interpreter's own module:
`hashlib` loads OpenSSL first, which costs 6 ms.
"""

from __future__ import annotations

try:
    from _blake2 import blake2b
except ImportError:  # an interpreter built without it
    from hashlib import blake2b

__all__ = ["checksum", "fingerprint"]


def checksum(data: bytes) -> bytes:
    """32 bytes of BLAKE2b."""
    return blake2b(data, digest_size=32).digest()


def fingerprint(text: str) -> str:
    """64 hexadecimal digits of BLAKE2b."""
    return blake2b(text.encode(), digest_size=32).hexdigest()
