"""A plugin of pytest, for runs with and without Framehold: a failing `pytest.raises` raises an AssertionError.

Its usual error is a BaseException: raised within a client it ends the event loop, and all later tests of its file fail
for no reason of their own.
"""

import _pytest.raises


def fail(message: str = "", pytrace: bool = True) -> None:
    raise AssertionError(message)


_pytest.raises.fail = fail  # type: ignore[assignment, attr-defined]  # a name of pytest's own
