"""ETags: whoever changes what others change as well says which state they have seen."""

from duly.edges.http.asking import Ask
from duly.errors import Invalid, Problem, Stale


def etag(tag: str) -> dict[str, str]:
    return {"ETag": f'"{tag}"'}


def expected(ask: Ask, current: str | None) -> str | None:
    """The tag that must still hold when it is written; None where the caller does not care. *current* is that of what
    is there, if it is. The check is made again on the locked row."""
    written = ask.request.headers.get("if-match")
    if written is None:
        return None
    wanted = [tag.strip() for tag in written.split(",")]
    if current is not None and (wanted == ["*"] or f'"{current}"' in wanted):
        return current
    if not all(tag == "*" or _is_tag(tag) for tag in wanted):
        raise Invalid([Problem("If-Match", 'expected an ETag as it was given, such as "1a2b3c", in its quotes')])
    raise Stale("it has changed since you read it, or is not there: read it again, and change that")


def _is_tag(written: str) -> bool:
    tag = written.removeprefix("W/")
    return len(tag) >= 2 and tag[0] == tag[-1] == '"' and '"' not in tag[1:-1]
