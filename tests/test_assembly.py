"""How the processes of one reproduction become one list of measurements."""

from warplog.assembly import merge


def made(metric, runs=None, subject="s", failed=None, **more):
    measurement = {"metric": metric, "unit": "s", "subject": subject, "workload": {"n": 1}, **more}
    return measurement | ({"failed": failed} if failed else {"runs": runs})


def test_the_runs_of_every_process_stand_in_order():
    (found,) = merge([[made("latency", [[1]])], [made("latency", [[2]])]])
    assert found["runs"] == [[1], [2]]


def test_a_failure_in_one_process_is_the_measurements_and_hides_its_companions():
    fine = [
        made("error", [[0]]),
        made("latency", [[1]], traffic=8, timer="queue"),
        made("x", [[1]]),
    ]
    found = merge([fine, [made("latency", failed="wrong"), made("x", [[2]])]])
    assert [each["metric"] for each in found] == ["latency", "x"]
    assert found[0] == made("latency", failed="wrong")


def test_what_one_process_did_not_make_has_failed():
    (found,) = merge([[made("latency", [[1]])], []])
    assert found["failed"] == "measured in 1 of 2 processes only"
    assert "runs" not in found


def test_a_timer_that_differs_between_processes_is_the_weaker_one():
    runs = [[made("latency", [[1]], timer="queue")], [made("latency", [[1]], timer="events")]]
    assert merge(runs)[0]["timer"] == "events"
