"""Makes a release of Framehold: `make version VERSION=1.2.3`, later `make release`. release/README.md has the steps.

`places` knows where the version stands, `changelog` cuts the section of a release out of CHANGELOG.md, `steps` builds,
checks and tags. Nothing here publishes anything.
"""

from __future__ import annotations


class Refused(Exception):
    """A step can't be done. The message says why, what was not done, and what to do."""
