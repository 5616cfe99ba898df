"""An owner's terms as text, and the keeper that never lets a bad file change anything."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gpunion.agent.settings import SettingsTrouble, load_settings
from gpunion.agent.terms.file import (
    KEYS,
    TermsTrouble,
    assignments,
    changed,
    differences,
    parse_terms,
    read_terms,
    written,
)
from gpunion.agent.terms.in_force import Found, TermsKeeper, find_terms
from gpunion.domain.nodes.terms import HouseRules, OwnersTerms, Terms
from gpunion.domain.resources import GIB
from gpunion.files import write_whole
from gpunion.policy.terms.busy import Appointment
from gpunion.policy.terms.civil import DAY_S
from tests.builders.calendars import CalendarOfLines

ALL = OwnersTerms(
    terms=Terms(
        notice_s=90.0,
        allow_labs=("vision", "speech"),
        deny_labs=("rivals",),
        prefer_labs=("vision",),
        allow_people=("kim",),
        deny_people=("sam",),
        prefer_people=("kim",),
        max_guests=2,
        memory_bytes=32 * GIB,
        cpus=8.0,
        vram_bytes=1_000_000_007,
        network_bps=1.5e8,
        autonomy_s=3600.0,
        images=("torch:*",),
        egress=("data.example:443",),
        allow_unsandboxed=True,
        figures="full",
    ),
    house=HouseRules(
        hours="Mon-Fri 19:00-08:00, Sat-Sun",
        calendar='/srv/my "own".ics',
        timezone="Europe/Berlin",
        temperature_c=82.5,
        disk_bytes=10 * GIB,
        when_safe_s=1800.0,
        yield_login=True,
        yield_keyboard=True,
        yield_gpus=(0, 3),
        yield_notice_s=0.5,
        yield_quiet_s=60.0,
    ),
)
NOW_S = 1_770_000_000.0
LESSON = (NOW_S + 3600, NOW_S + 7200)
LUNCH = (NOW_S + 10_000, NOW_S + 12_000)


def calendar_of(*spans: tuple[float, float]) -> str:
    return "\n".join(f"{begin} {end}" for begin, end in spans)


@pytest.mark.parametrize("terms", [OwnersTerms(), ALL])
def test_what_is_written_is_what_is_read(terms: OwnersTerms) -> None:
    assert parse_terms(written(terms)) == terms


def test_every_term_can_be_written() -> None:
    named = {key.field for key in KEYS}
    assert named == {*Terms.__dataclass_fields__, *HouseRules.__dataclass_fields__}


def test_some_are_changed_and_nothing_after_the_sign_means_as_usual() -> None:
    terms = changed(ALL, assignments(["notice=2m", "allow.labs=", "caps.vram=16GiB", "caps.network=1Gbit"]))
    assert (terms.terms.notice_s, terms.terms.allow_labs, terms.terms.vram_bytes) == (120.0, (), 16 * GIB)
    assert terms.terms.network_bps == 1e9
    assert terms.house == ALL.house
    said = differences(ALL, terms)
    assert said == "notice=2m; allow.labs=as usual; caps.vram=16GiB; caps.network=1Gbit"
    moved = changed(ALL, {"calendar": "/elsewhere.ics"})
    assert differences(ALL, moved, for_others=True) == "calendar"  # where it is is nobody's business


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["notise=60s"], "'notise' is not known; did you mean 'notice'?"),
        (["caps.temprature=80"], "did you mean 'caps.temperature'?"),
        (["xyz=1"], "known are allow.labs"),
        (["notice"], "is not KEY=VALUE"),
        (["notice=1s", "notice=2s"], "notice is set twice"),
        (["notice=soon"], "notice: 'soon' is no duration; write it like 60s"),
        (["notice=25h"], "is not between 0s and 24h"),
        (["max_guests=0"], "not a whole number of guests between 1 and 1000"),
        (["max_guests=1.5"], "not a whole number"),
        (["caps.temperature=hot"], "degrees Celsius between 40 and 110"),
        (["caps.vram=lots"], "'lots' is no amount of memory"),
        (["caps.network=fast"], "'fast' is no rate; write it like 100Mbit"),
        (["caps.network=0Mbit"], "is no rate"),
        (["allow.labs=a,,b"], "'' is no name"),
        (["allow.labs=a", "deny.labs=a"], "a is both wanted and denied"),
        (["prefer.people=kim", "deny.people=kim"], "kim is both wanted and denied"),
        (["yield.login=perhaps"], "neither yes nor no"),
        (["yield.gpus=first"], "no numbers of GPUs"),
        (["hours=Mon-Fry"], "hours: 'Fry' is no day"),
        (["timezone=Mars/Base"], "no time zone this machine knows"),
        (["calendar=here.ics"], "write the whole path"),
    ],
)
def test_what_is_impossible_is_refused_in_words(words: list[str], said: str) -> None:
    with pytest.raises(TermsTrouble) as trouble:
        changed(OwnersTerms(), assignments(words))
    assert said in str(trouble.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("notice = ", "not TOML"),
        ("[caps]\nheat = 3", "'caps.heat' is not known"),
        ("[hours]\nmon = 1", "hours"),
        ("caps = 3", "'caps' is not known"),
        ("[allow]\nlabs = [1]", "1 is no name"),
        ("[yield]\ngpus = [true]", "no numbers of GPUs"),
        ("#" * 300_000, "more than 262144 bytes"),
    ],
)
def test_a_file_that_says_nothing_sensible_is_refused_in_words(text: str, said: str) -> None:
    with pytest.raises(TermsTrouble) as trouble:
        parse_terms(text)
    assert said in str(trouble.value)


# --- the keeper -----------------------------------------------------------------------------------------


def a_keeper(
    folder: Path,
    terms: OwnersTerms | None = None,
    calendar: CalendarOfLines | None = None,
    wall: Callable[[], float] = lambda: NOW_S,
) -> TermsKeeper:
    return TermsKeeper(folder, Found(terms=terms or OwnersTerms()), calendar or CalendarOfLines(), wall=wall)


def test_a_hand_edited_file_is_found_and_a_bad_one_changes_nothing(tmp_path: Path) -> None:
    keeper = a_keeper(tmp_path)
    assert keeper.look() is None
    write_whole(keeper.path, 'notice = "5s"\n')
    found = keeper.look()
    assert found is not None
    keeper.take(found)
    write_whole(keeper.path, 'notise = "5s"\n')
    assert keeper.look() is None
    assert "did you mean 'notice'?" in keeper.trouble
    assert keeper.terms.terms.notice_s == 5.0
    keeper.path.unlink()
    assert keeper.look() is None
    assert "is gone" in keeper.trouble
    keeper.write(keeper.terms)
    assert (keeper.look(), keeper.trouble) == (None, "")


def test_an_agent_that_starts_with_a_bad_file_goes_on_with_the_last_good_terms(tmp_path: Path) -> None:
    usual = OwnersTerms(terms=Terms(notice_s=7.0))
    assert find_terms(tmp_path, usual) == Found(terms=usual)
    keeper = a_keeper(tmp_path)
    keeper.write(ALL)
    keeper.take(OwnersTerms(terms=Terms(notice_s=9.0)))
    keeper.path.write_bytes(b"\xff\xfe")
    found = find_terms(tmp_path, usual)
    assert found.terms.terms.notice_s == 9.0
    assert "is no text" in found.trouble
    (tmp_path / "agent" / "terms.good.toml").unlink()
    with pytest.raises(TermsTrouble, match="mend it, or remove it"):
        find_terms(tmp_path, usual)


def test_settings_have_the_terms_of_their_own_file(tmp_path: Path) -> None:
    (tmp_path / "agent.toml").write_text(
        'coordinator = "http://campus.example"\nnode_id = "a"\nvault = "v"\n[terms]\nnotice_s = 5\n'
    )
    assert load_settings(tmp_path, {}).terms.notice_s == 5.0
    write_whole(tmp_path / "terms.toml", 'notice = "9s"\nhours = "Sat-Sun"\n')
    settings = load_settings(tmp_path, {})
    assert (settings.terms.notice_s, settings.house.hours) == (9.0, "Sat-Sun")
    write_whole(tmp_path / "terms.toml", 'notice = "9"\nnotice = "8"\n')
    with pytest.raises(SettingsTrouble, match="not TOML"):
        load_settings(tmp_path, {})


def test_a_calendar_is_read_again_when_it_changes_and_kept_when_it_breaks(tmp_path: Path) -> None:
    calendar = tmp_path / "mine.ics"
    calendar.write_text(calendar_of(LESSON))
    keeper = a_keeper(tmp_path)
    terms = keeper.with_changes({"calendar": str(calendar)})
    keeper.take(terms)
    assert keeper.times.busy == (LESSON,)
    calendar.write_text(calendar_of(LUNCH))
    keeper.look()
    assert keeper.times.busy == (LUNCH,)
    for spoil in (
        lambda: calendar.write_text("oops"),
        lambda: calendar.write_bytes(b"\xff"),
        calendar.unlink,
    ):
        spoil()
        keeper.look()
        assert "its last good copy counts" in keeper.calendar_trouble
        assert keeper.times.busy == (LUNCH,)
    keeper.with_changes({"notice": "5s"})  # other terms can be changed meanwhile
    again = a_keeper(tmp_path, terms)  # an agent that starts now
    assert again.times.busy == (LUNCH,)
    (tmp_path / "agent" / "calendar.good.ics").unlink()
    third = a_keeper(tmp_path, terms)
    assert "there is no copy" in third.calendar_trouble
    calendar.write_text(calendar_of(LESSON))
    third.look()
    assert third.calendar_trouble == ""


def test_the_days_ahead_are_worked_out_anew_every_day_also_from_the_copy(tmp_path: Path) -> None:
    far = (NOW_S + 30 * DAY_S, NOW_S + 30 * DAY_S + 3600)
    path, now_s, calendar = tmp_path / "mine.ics", [NOW_S], CalendarOfLines()
    path.write_text(calendar_of(LESSON, far))
    keeper = a_keeper(tmp_path, calendar=calendar, wall=lambda: now_s[0])
    keeper.take(keeper.with_changes({"calendar": str(path)}))
    asked = len(calendar.asked_s)
    keeper.look()
    assert len(calendar.asked_s) == asked  # nothing changed: no work
    path.write_text("oops")
    for _ in range(30):
        now_s[0] += DAY_S
        keeper.look()
    assert keeper.times.busy == (far,)
    assert "its last good copy counts" in keeper.calendar_trouble


def test_days_that_cannot_be_worked_out_are_tried_again_after_an_hour(tmp_path: Path) -> None:
    path, now_s, calendar = tmp_path / "mine.ics", [NOW_S], CalendarOfLines()
    path.write_text(calendar_of(LESSON))
    keeper = a_keeper(tmp_path, calendar=calendar, wall=lambda: now_s[0])
    keeper.take(keeper.with_changes({"calendar": str(path)}))
    keeper.look()
    for file in (path, tmp_path / "agent" / "calendar.good.ics"):
        file.write_text("oops")
    now_s[0] += DAY_S
    keeper.look()
    asked = len(calendar.asked_s)
    keeper.look()
    assert len(calendar.asked_s) == asked
    assert keeper.times.busy == (LESSON,)
    now_s[0] += 3600
    keeper.look()
    assert len(calendar.asked_s) > asked


def test_another_time_zone_counts_for_the_calendar_at_once(tmp_path: Path) -> None:
    """Times that name no zone are those of the owner's terms."""

    class Floating:
        def appointments(self, text: str, since_s: float, until_s: float) -> tuple[Appointment, ...]:
            return (Appointment(begin_s=NOW_S, end_s=NOW_S + 3600, floating=True),)

    path = tmp_path / "mine.ics"
    path.write_text("")
    keeper = TermsKeeper(tmp_path, Found(terms=OwnersTerms()), Floating(), wall=lambda: NOW_S)
    keeper.take(keeper.with_changes({"calendar": str(path), "timezone": "UTC"}))
    assert keeper.times.busy == ((NOW_S, NOW_S + 3600),)
    keeper.take(keeper.with_changes({"timezone": "Asia/Tokyo"}))
    assert keeper.times.busy == ((NOW_S - 9 * 3600, NOW_S - 8 * 3600),)


@pytest.mark.parametrize("text", [None, "hello", "1 2\n" * 3_000_000])
def test_a_calendar_that_cannot_be_read_is_not_taken(tmp_path: Path, text: str | None) -> None:
    calendar = tmp_path / "mine.ics"
    if text is not None:
        calendar.write_text(text)
    with pytest.raises(TermsTrouble, match="calendar: "):
        a_keeper(tmp_path).with_changes({"calendar": str(calendar)})


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_file_that_cannot_be_written_is_said_and_changes_nothing(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(TermsTrouble, match="cannot be written"):
        a_keeper(tmp_path).write(ALL)


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(TermsTrouble, match="cannot be read"):
        read_terms(tmp_path / "terms.toml")


def test_lists_of_names_that_no_greeting_would_carry_are_refused() -> None:
    names = ",".join(f"{'x' * 100}{number}" for number in range(400))
    with pytest.raises(TermsTrouble, match="letters together"):
        changed(OwnersTerms(), {"deny.people": names})
