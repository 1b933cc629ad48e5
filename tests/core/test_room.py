"""Who may still write to a store whose memory is limited."""

from framehold_core.ids import CallId
from framehold_core.room import SMALL, Journals, takes_new_calls

A, B = CallId("a" * 32), CallId("b" * 32)
LIMIT = 100_000


def test_the_last_tenth_is_kept_for_calls_that_exist() -> None:
    assert takes_new_calls(899, 1000)
    assert not takes_new_calls(900, 1000)
    assert not takes_new_calls(1001, 1000)


def test_the_journals_of_a_user_count_together() -> None:
    """Each by its last size; those of another user, and of nobody, do not count."""
    journals = Journals(LIMIT)
    journals.keep("ann", A, LIMIT - 2, 9.0)
    assert journals.may_begin("ann") and not journals.may_answer("ann", SMALL + 1)
    journals.keep("ann", B, 2, 9.0)
    assert not journals.may_begin("ann")
    assert journals.may_begin("ben") and journals.may_begin(None)
    journals.keep("ann", A, 10, 9.0)
    assert journals.held("ann") == 12 and journals.may_begin("ann")


def test_small_answers_pass_so_that_calls_can_end() -> None:
    """Until the user has twice its limit: then nothing that grows."""
    journals = Journals(LIMIT)
    journals.keep("ann", A, LIMIT + 1, 9.0)
    assert journals.may_answer("ann", SMALL) and not journals.may_answer("ann", SMALL + 1)
    assert journals.may_answer(None, 9 * LIMIT) and journals.may_answer("ben", LIMIT)
    assert not journals.may_answer("ben", LIMIT + 1)
    assert journals.may_go_on("ann")
    journals.keep("ann", A, 2 * LIMIT, 9.0)
    assert not journals.may_answer("ann", 1) and not journals.may_go_on("ann")
    assert journals.may_go_on("ben") and journals.may_go_on(None)


def test_a_journal_counts_as_long_as_the_store_keeps_it() -> None:
    """Until its call has ended, or its record has expired; nothing is left of a user without journals."""
    journals = Journals(LIMIT)
    journals.keep("ann", A, LIMIT, 5.0)
    journals.keep("ann", B, 1, 9.0)
    journals.forget_expired(4.9)
    assert journals.held("ann") == LIMIT + 1
    journals.forget_expired(5.0)
    assert journals.held("ann") == 1
    journals.drop("ann", B)
    journals.drop("ann", B)
    journals.drop("ben", B)
    assert journals.held("ann") == 0 and not journals._held and not journals._sums
