"""The samples of a fleet under load, with a made-up look."""

import math

import pytest

from framehold_loadtest.report.series import Sample
from framehold_loadtest.scenario import samples

pytestmark = pytest.mark.load


def test_the_last_sample_is_taken_at_the_end() -> None:
    """What held up a loop since the sample before is in it."""
    taken = Sample(1.0, {}, {}, {}, {"n1": {math.inf: 1.0}}, {})
    reply: list[Sample] = []
    sampler = samples.Sampler(lambda: taken, reply.append, every=3600.0)
    sampler.start()
    sampler.stop()
    assert sampler.samples == reply == [taken]
