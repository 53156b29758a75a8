"""What a bench says of the machine meanwhile."""

from machine_info import MachineSpeed, describe_speed


def test_every_look_is_told_with_what_the_host_took():
    weather = MachineSpeed()
    weather.measure()
    weather.measure()
    told = weather.describe()
    assert len(told["paces"]) == 2
    assert all(pace > 0 for pace in told["paces"])
    assert 0 <= told["stolen"] <= 100


def test_its_words_name_the_slowest_and_the_fastest():
    words = describe_speed({"paces": [7.1, 4.5, 6.0], "stolen": 3.2})
    assert "4.5 to 7.1 million" in words
    assert "3.2 %" in words
