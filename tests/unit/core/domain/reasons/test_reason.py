"""Every reason can be said in words, wherever the code gives it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from enum import StrEnum
from functools import cache
from pathlib import Path
from string import Formatter

import pytest

from gpunion.domain.jobs.checkpoint import CheckpointTrouble
from gpunion.domain.jobs.migration import Cause
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.reasons.reason import Reason, Verdict, Why, because, told
from gpunion.domain.reasons.sentences import SENTENCES, WITHOUT_NOTICE
from gpunion.domain.reasons.wording import END_IN_WORDS, TROUBLE_IN_WORDS

SOURCE = Path(__file__).resolve().parents[5] / "src" / "gpunion"
PURE = ("domain", "lifecycle", "policy", "engine")


def modules() -> list[Path]:
    return sorted(path for package in PURE for path in (SOURCE / package).rglob("*.py"))


def asked_for(why: Why) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(SENTENCES[why]) if name}


def given() -> Iterator[tuple[str, Why, set[str]]]:
    """Every place that names a reason with its facts: where, which, and the facts it hands over."""
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and called(node) == "because" and len(node.args) == 2:
                why = node.args[1]
                if (
                    isinstance(why, ast.Attribute)
                    and isinstance(why.value, ast.Name)
                    and why.value.id == "Why"
                ):
                    facts = {keyword.arg for keyword in node.keywords if keyword.arg}
                    yield f"{path.relative_to(SOURCE)}:{node.lineno}", Why[why.attr], facts


def called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def mentioned(words: type[StrEnum]) -> set[str]:
    """Which of them the code names, but for where they are defined and put into sentences."""
    return set(re.findall(rf"\b{words.__name__}\.([A-Z_]+)\b", source()))


@cache
def source() -> str:
    paths = (path for path in sorted(SOURCE.rglob("*.py")) if path.name not in ("reasons.py", "wording.py"))
    return "\n".join(path.read_text(encoding="utf-8") for path in paths)


def test_every_reason_has_a_sentence() -> None:
    assert set(SENTENCES) == set(Why)


def test_every_code_that_gets_into_a_sentence_has_words() -> None:
    assert set(TROUBLE_IN_WORDS) == set(CheckpointTrouble)
    assert set(END_IN_WORDS) == set(EndReason)
    said = [*TROUBLE_IN_WORDS.values(), *END_IN_WORDS.values()]
    assert [words for words in said if "_" in words or " " not in words] == []


def test_every_place_that_gives_a_reason_hands_over_the_facts_its_sentence_asks_for() -> None:
    places = list(given())
    assert len(places) > 40
    assert [where for where, why, facts in places if not asked_for(why) <= facts] == []


@pytest.mark.parametrize("words", [Why, Cause, EndReason, CheckpointTrouble])
def test_there_is_no_word_for_what_never_happens(words: type[StrEnum]) -> None:
    assert set(words.__members__) - mentioned(words) == set()


@pytest.mark.parametrize("why", WITHOUT_NOTICE)
@pytest.mark.parametrize("notice_s", [0.0, 0.04, 0])
def test_no_notice_is_not_told_in_seconds(why: Why, notice_s: float) -> None:
    assert "notice_s" in asked_for(why)
    facts = dict.fromkeys(asked_for(why), "x") | {"notice_s": notice_s}
    assert not re.search(r"\d|\{", because("job", why, **facts).sentence())


@pytest.mark.parametrize("why", Why)
def test_a_reason_with_its_facts_is_a_sentence(why: Why) -> None:
    sentence = because("job", why, **dict.fromkeys(asked_for(why), 1.5)).sentence()
    assert "{" not in sentence
    assert not sentence.endswith(".")


def test_a_reason_without_its_facts_is_a_bug() -> None:
    with pytest.raises(KeyError):
        Reason(subject="job", why=Why.RESUMED).sentence()


def test_facts_are_kept_in_one_order_so_that_equal_reasons_are_equal() -> None:
    assert because("job", Why.RESUMED, node="a", step=1) == because("job", Why.RESUMED, step=1, node="a")


@pytest.mark.parametrize(("value", "shown"), [(2.0, "2"), (2.25, "2.2"), (3, "3"), ("x", "x")])
def test_numbers_are_shown_as_people_say_them(value: float | str, shown: str) -> None:
    sentence = because("job", Why.STARTED, node=value).sentence()
    assert sentence == f"started on {shown} from the beginning"


@pytest.mark.parametrize(
    ("free", "needs", "told"),
    [
        (0, 1, "0 of its GPUs are free, 1 is needed"),
        (1, 2, "1 of its GPUs is free, 2 are needed"),
    ],
)
def test_words_agree_with_their_number(free: int, needs: int, told: str) -> None:
    assert because("a", Why.TOO_FEW_FREE_GPUS, free=free, needs=needs).sentence() == told
    finished = because("a", Why.FINISHED, node="n", moves=needs).sentence()
    assert finished == f"finished on n after {'1 move' if needs == 1 else '2 moves'}"


def test_a_verdict_without_a_refusal_fits() -> None:
    assert Verdict(node="alpha").fits
    assert not Verdict(node="alpha", refusal=because("alpha", Why.NODE_PAUSED)).fits


@pytest.mark.parametrize(
    ("notice_s", "shown"),
    [
        (0.1, "0.1 s"),
        (16.6, "16.6 s"),
        (119, "119 s"),
        (900.0, "15 min"),
        (463.8, "7 min 44 s"),
        (90000, "1 d 1 h"),
    ],
)
def test_long_times_are_not_told_in_seconds(notice_s: float, shown: str) -> None:
    reason = because("job", Why.OWNER_WANTS_NODE, node="a", notice_s=notice_s)
    assert reason.sentence() == f"the owner of a wants it back in {shown}"


@pytest.mark.parametrize(
    ("why", "told"),
    [
        (Why.MOVED, "moved from alpha to beta; stood still for 3 s, 7 steps to redo"),
        (
            Why.MOVED_ANEW,
            "moved from alpha to beta; stood still for 3 s and begins anew: nothing of it was saved "
            "(how a program is saved: docs/checkpoints.md)",
        ),
    ],
)
def test_what_a_coordinator_of_before_has_written_down_can_be_told(why: Why, told: str) -> None:
    facts = (("downtime_s", 3.0), ("node", "beta"), ("redone", 7), ("source", "alpha"))
    assert Reason(subject="job", why=why, facts=facts).sentence() == told


def test_a_reason_stored_when_less_was_said_of_it_can_still_be_told() -> None:
    assert told(because("alpha", Why.WRONG_MODEL)) == "wrong model"
    assert told(because("alpha", Why.WRONG_MODEL, models="A100")).startswith("its GPUs (A100)")
