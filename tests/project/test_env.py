import pytest
from django.core.exceptions import ImproperlyConfigured

from bridgeproject.env import data_dir_from, env_bool, env_int, env_list, env_secret


@pytest.mark.parametrize(("word", "expected"), [("1", True), ("Yes", True), ("off", False), ("", False)])
def test_a_word_is_read_as_true_or_false(monkeypatch, word, expected):
    monkeypatch.setenv("BRIDGE_X", word)

    assert env_bool("BRIDGE_X") is expected


def test_a_word_that_is_neither_is_refused_by_name(monkeypatch):
    monkeypatch.setenv("BRIDGE_X", "maybe")

    with pytest.raises(ImproperlyConfigured, match="BRIDGE_X"):
        env_bool("BRIDGE_X")


def test_a_number_must_be_whole(monkeypatch):
    monkeypatch.setenv("BRIDGE_X", "3.5")

    with pytest.raises(ImproperlyConfigured, match=r"BRIDGE_X is not a whole number: '3\.5'"):
        env_int("BRIDGE_X", 1)


def test_an_unset_variable_gives_the_default(monkeypatch):
    monkeypatch.delenv("BRIDGE_X", raising=False)

    assert env_int("BRIDGE_X", 7) == 7
    assert env_list("BRIDGE_X") == []
    assert env_secret("BRIDGE_X") == ""


def test_blanks_around_commas_are_dropped(monkeypatch):
    monkeypatch.setenv("BRIDGE_X", " a, b ,,c ")

    assert env_list("BRIDGE_X") == ["a", "b", "c"]


def test_a_secret_may_stand_in_a_file(monkeypatch, tmp_path):
    (tmp_path / "secret").write_text("hidden\n")
    monkeypatch.setenv("BRIDGE_X_FILE", str(tmp_path / "secret"))

    assert env_secret("BRIDGE_X") == "hidden"


def test_a_missing_secret_file_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("BRIDGE_X_FILE", str(tmp_path / "nowhere"))

    with pytest.raises(ImproperlyConfigured, match="BRIDGE_X_FILE names a file that can't be read"):
        env_secret("BRIDGE_X")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["manage.py", "up", "--data-dir", "d"], "d"),
        (["manage.py", "up", "--data-dir=d", "--demo"], "d"),
        (["manage.py", "up", "--data-dir"], None),
        (["manage.py", "up"], None),
    ],
)
def test_the_data_directory_is_found_among_the_words(words, expected):
    assert data_dir_from(words) == expected
