"""Links of the pages to files outside of `docs/`, such as `../examples/haproxy.cfg`, made to work on the site.

In the repository such a link is relative, and works as it stands. The site has only what is below `docs/`, so there the
link becomes an address in the repository. A link to a file that does not exist stays as it is, and the strict build
reports it.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

_LINK = re.compile(r"\]\((\.\./[^)\s#]*)(#[^)\s]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Rewrite the links of one page. MkDocs calls this before it renders the page."""
    docs = Path(config.docs_dir)
    folder = posixpath.dirname(page.file.src_uri)

    def rewritten(link: re.Match[str]) -> str:
        # Relative to the repository, whose folder is the parent of `docs/`.
        path = posixpath.normpath(posixpath.join(docs.name, folder, link[1]))
        target = docs.parent / path
        if path.split("/")[0] in (docs.name, "..") or not target.exists():
            return link[0]
        kind = "tree" if target.is_dir() else "blob"
        return f"]({config.extra['repository']}/{kind}/main/{path}{link[2] or ''})"

    return _LINK.sub(rewritten, markdown)
