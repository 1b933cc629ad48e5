"""What others wrote is here as they published it: nobody patched it, and its licence is beside it."""

from __future__ import annotations

import re
from hashlib import sha512

import pytest

from framehold_router.dashboard import ASSETS

pytestmark = pytest.mark.browser

VENDOR = ASSETS / "vendor"
LICENCES = (VENDOR / "LICENSES.txt").read_text()
SUMS = dict(re.findall(r"(?m)^  (\S+) \(\S+\)\n    sha512 ([0-9a-f]{128})$", LICENCES))


def test_each_file_is_listed_with_its_sum() -> None:
    found = {path.name: sha512(path.read_bytes()).hexdigest() for path in VENDOR.iterdir()}
    found.pop("LICENSES.txt")
    assert found == SUMS


def test_each_library_is_named_with_its_version_and_licence() -> None:
    """Once in the list, and once before the text of the licence."""
    listed = dict(re.findall(r"(?m)^(\w+ \d+\.\d+\.\d+), (MIT|Apache-2\.0)$", LICENCES))
    assert len(listed) == 3
    for name, licence in listed.items():
        text = LICENCES.split(f"{'-' * 100}\n{name}\n")[1].split("-" * 100)[0]
        assert ("MIT License" if licence == "MIT" else "Apache License") in text
