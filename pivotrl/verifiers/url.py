"""`url`: do two URLs lead to the same page?

Two URLs are equal when their canonical forms are:

- `http` and `https` are one scheme, and a URL without one (`www.example.org/a`, `example.org/a`) has it; the scheme's
  default port, the case of scheme and host, a host's final dot and a leading `www.` do not matter;
- an international host is its ASCII form (UTS 46, as browsers have it), an IPv6 address its short one;
- `.` and `..` segments are resolved, an empty path is `/`, and percent-encodings say what they encode (`%7Eme` is
  `~me`, `%2F` is not `/`); any other slash at a path's end counts, and so does the case of a path;
- the query's parameters in any order (those of one name in theirs), `+` and `%20` alike, `a` and `a=` alike, without
  the parameters that only count visitors (`utm_*`, `gclid`, `fbclid`, ...);
- a fragment is dropped, unless it is the route of a page that runs in the browser: `#!...` or `#/...`;
- a user name and password are kept.

What is no such URL (other schemes, no host, a backslash or white space inside, a host that cannot be) has no canonical
form, and equals only the same text.
"""

import ipaddress
import re
from typing import Any
from urllib.parse import quote, unquote_to_bytes, urlsplit

from pivotrl.trajectories.faults import excerpt
from pivotrl.verifiers.base import Difference

LONGEST_URL = 8192
"""Characters; a longer one has no canonical form."""
LONGEST_HOST = 253
"""Characters of a host's name, by the rules of DNS."""
DEFAULT_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443, "ftp": 21}
"""The schemes that are understood."""
COUNTERS = frozenset(
    {"gclid", "dclid", "gbraid", "wbraid", "fbclid", "msclkid", "yclid", "twclid", "ttclid", "igsh", "igshid"}
    | {"mc_cid", "mc_eid", "_ga", "_gl", "_hsenc", "_hsmi", "mkt_tok"}
)
"""Query parameters that only tell where a visitor comes from, beside `utm_*`."""

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_BARE = re.compile(r"(?:localhost|[^\s/?#:@.]+(?:\.[^\s/?#:@.]+)*\.[^\W\d_]{2,63}\.?)(?::\d{1,5})?(?=[/?#]|$)")
"""A host without a scheme: its last label is letters, as in `example.org:8080/a`."""
_NEVER_INSIDE = re.compile(r"[\x00-\x20\x7f-\xa0\u1680\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\\\ud800-\udfff]")
_HOST = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*")


def compare(expected: Any, actual: Any) -> Difference | None:
    """None where both URLs lead to the same page; `actual` may be anything."""
    if not isinstance(expected, str) or not isinstance(actual, str):
        return Difference("other_type", f"a URL is text, not {excerpt(actual)}")
    expected, actual = expected.strip(), actual.strip()
    if expected == actual:
        return None
    if len(actual) > LONGEST_URL:
        return Difference("too_long", f"a URL of {len(actual)} characters; {LONGEST_URL} are compared")
    wanted = canonical(expected)
    if wanted is not None and wanted == canonical(actual):
        return None
    return Difference("other_value", f"{excerpt(actual)} is not {excerpt(expected)}")


def canonical(url: str) -> str | None:
    """The form that equivalent URLs share, or None where `url` is not one that is understood. Never raises."""
    url = url.strip()
    if len(url) > LONGEST_URL or _NEVER_INSIDE.search(url):
        return None
    if not _SCHEME.match(url):
        if not _BARE.match(url):
            return None
        url = "http://" + url
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    host = _host(parts.hostname or "")
    if parts.scheme not in DEFAULT_PORTS or host is None:
        return None
    scheme = {"https": "http", "wss": "ws"}.get(parts.scheme, parts.scheme)
    user, at, _ = parts.netloc.rpartition("@")
    name, colon, password = user.partition(":")
    user = _same_percent(name) + colon + _same_percent(password)
    port_text = "" if port is None or port == DEFAULT_PORTS[parts.scheme] else f":{port}"
    query, fragment = _query(parts.query), parts.fragment
    route = "#" + quote(unquote_to_bytes(fragment), safe="/!?&=") if fragment.startswith(("!", "/")) else ""
    return f"{scheme}://{user}{at}{host}{port_text}{_path(parts.path)}{query and '?' + query}{route}"


def _host(name: str) -> str | None:
    """A host's one spelling; None where it cannot be one."""
    if len(name) > LONGEST_HOST:
        return None
    if ":" in name:
        try:
            return f"[{ipaddress.IPv6Address(name).compressed}]"
        except ValueError:
            return None
    if not name.isascii() or "xn--" in name:
        import idna

        try:
            name = idna.encode(name, uts46=True).decode("ascii")
        except (UnicodeError, IndexError):
            return None
    name = name.lower().removesuffix(".")
    if not _HOST.fullmatch(name):
        return None
    rest = name.removeprefix("www.")
    return rest if "." in rest else name


def _same_percent(text: str, safe: str = "") -> str:
    """`text` with what its percent-encodings say, encoded in one way."""
    return quote(unquote_to_bytes(text), safe=safe)


def _path(path: str) -> str:
    """Absolute, and without dot segments (RFC 3986, 5.2.4)."""
    kept: list[str] = []
    segments = [_same_percent(segment, "!$&'()*+,;=:@") for segment in path.split("/")[1:]]
    for segment in segments:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    if segments and segments[-1] in (".", ".."):
        kept.append("")
    return "/" + "/".join(kept)


def _query(query: str) -> str:
    pairs = []
    for field in query.split("&"):
        name, _, value = field.replace("+", " ").partition("=")
        name = _same_percent(name)
        if field and name not in COUNTERS and not name.startswith("utm_"):
            pairs.append((name, _same_percent(value)))
    pairs.sort(key=lambda pair: pair[0])
    return "&".join(f"{name}={value}" for name, value in pairs)
