"""Digests of several parts, of which none can pass for a piece of another."""

from __future__ import annotations

import hashlib


def digest(*parts: str | bytes, size: int = 20) -> str:
    """A digest of `size` bytes, in hexadecimal digits."""
    whole = hashlib.blake2b(digest_size=size)
    for part in parts:
        data = part.encode(errors="surrogatepass") if isinstance(part, str) else part
        whole.update(len(data).to_bytes(8, "big"))
        whole.update(data)
    return whole.hexdigest()
