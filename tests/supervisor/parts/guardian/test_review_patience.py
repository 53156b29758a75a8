"""Time-outs of a slow reviewer do not use up the run's own time."""

from swarm.supervisor.parts.guardian.review_patience import ReviewPatience


def test_without_a_deadline_a_review_has_what_is_configured():
    assert ReviewPatience(90.0).allowed_s(0.0, left_s=None) == 90.0


def test_a_review_gets_a_tenth_of_the_time_that_is_left():
    patience = ReviewPatience(90.0)
    shares = [patience.allowed_s(0.0, left_s=left) for left in (3600.0, 360.0, 20.0, -1.0)]
    assert shares == [90.0, 36.0, 5.0, 5.0]


def test_all_time_outs_together_take_a_fifth_of_a_run_at_most():
    patience, now, deadline, spent = ReviewPatience(90.0), 0.0, 360.0, 0.0
    while now < deadline and (allowed := patience.allowed_s(now, left_s=deadline - now)):
        now += allowed
        spent += allowed
        patience.note(now, timed_out=True)
    assert spent <= deadline / 5


def test_after_two_time_outs_in_a_row_nobody_is_asked_for_ten_minutes():
    patience = ReviewPatience(90.0)
    patience.note(90.0, timed_out=True)
    patience.note(100.0, timed_out=False)  # it answered: counted anew
    patience.note(190.0, timed_out=True)
    assert patience.allowed_s(190.0, left_s=None) == 90.0
    patience.note(280.0, timed_out=True)
    assert patience.allowed_s(281.0, left_s=None) == 0.0
    assert patience.allowed_s(880.0, left_s=None) == 90.0
