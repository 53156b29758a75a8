"""What a bench says of the machine meanwhile."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts" / "benches"))

from machine import Weather, weather_words


def test_every_look_is_told_with_what_the_host_took():
    weather = Weather()
    weather.look()
    weather.look()
    told = weather.describe()
    assert len(told["paces"]) == 2
    assert all(pace > 0 for pace in told["paces"])
    assert 0 <= told["stolen"] <= 100


def test_its_words_name_the_slowest_and_the_fastest():
    words = weather_words({"paces": [7.1, 4.5, 6.0], "stolen": 3.2})
    assert "4.5 to 7.1 million" in words
    assert "3.2 %" in words
