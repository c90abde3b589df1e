"""Values that both sides of a pair have, marked by placeholders."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nqg.slots.delexicalize import DelexicalizedPair, delexicalize
from nqg.slots.matcher import Mention, Tokens, longest_spans


def shown(source: str, target: str, *mentions: Mention) -> tuple[str, str]:
    pair = delexicalize(source.split(), target.split(), mentions)
    assert restored(pair) == tuple(target.split())
    return " ".join(pair.source), " ".join(pair.target)


def restored(pair: DelexicalizedPair) -> Tokens:
    """The program with the values behind the placeholders."""
    values = {
        name: mention.value
        for name, mention in zip(pair.placeholders, pair.mentions, strict=True)
    }
    return tuple(token for each in pair.target for token in values.get(each, (each,)))


def test_values_are_numbered_by_slot_in_the_order_of_the_sentence() -> None:
    assert shown(
        "from 5 to 9 on friday and 5",
        "f ( 9 , 5 , fri )",
        Mention(1, 2, "number", ("5",)),
        Mention(3, 4, "number", ("9",)),
        Mention(5, 6, "date", ("fri",)),
        Mention(7, 8, "number", ("5",)),
    ) == (
        "from @number_1 to @number_2 on @date_1 and @number_1",
        "f ( @number_2 , @number_1 , @date_1 )",
    )


def test_words_that_are_no_values_in_the_program_stay_words() -> None:
    assert shown(
        "take one of 7",
        "take ( 7 )",
        Mention(1, 2, "number", ("1",)),
        Mention(3, 4, "number", ("7",)),
    ) == (
        "take one of @number_1",
        "take ( @number_1 )",
    )


def test_the_longest_mention_counts_and_a_part_of_its_value_is_nobodys() -> None:
    assert shown(
        "7 alarms at 7 30",
        'alarm ( " 7 : 30 " )',
        Mention(0, 1, "number", ("7",)),
        Mention(3, 4, "number", ("7",)),
        Mention(3, 5, "time", ("7", ":", "30")),
    ) == ("7 alarms at @time_1", 'alarm ( " @time_1 " )')


def test_two_readings_of_one_name_are_used_in_turn() -> None:
    river, state = ("river", "(", "colorado", ")"), ("state", "(", "colorado", ")")
    mentions = [
        Mention(at, at + 1, *each)
        for at in (2, 4)
        for each in (("state", state), ("river", river))
    ]
    assert shown(
        "does the colorado cross colorado",
        "f ( river ( colorado ) , state ( colorado ) )",
        *mentions,
    ) == (
        "does the @river_1 cross @state_1",
        "f ( @river_1 , @state_1 )",
    )


def test_equal_values_of_two_slots_take_turns() -> None:
    mentions = [
        Mention(at, at + 1, slot, ("york",))
        for at in (0, 2)
        for slot in ("state", "city")
    ]
    assert shown("york and york", "f ( york , york )", *mentions) == (
        "@state_1 and @city_1",
        "f ( @state_1 , @city_1 )",
    )


MENTIONS = st.builds(
    lambda start, size, slot, value: Mention(start, start + size, slot, tuple(value)),
    st.integers(0, 7),
    st.integers(1, 3),
    st.sampled_from(["number", "city"]),
    st.lists(st.sampled_from("abc"), min_size=1, max_size=2),
)


@given(st.lists(st.sampled_from("abc"), max_size=10), st.lists(MENTIONS, max_size=8))
def test_a_marked_pair_is_restored_and_has_every_placeholder_on_both_sides(
    target: list[str], found: list[Mention]
) -> None:
    source = [f"w{at}" for at in range(10)]
    pair = delexicalize(source, target, found)
    assert restored(pair) == tuple(target)
    assert {token for token in pair.source if token[0] == "@"} == {
        token for token in pair.target if token[0] == "@"
    }
    assert set(pair.placeholders) == {token for token in pair.source if token[0] == "@"}
    covered = [
        at for mention in pair.mentions for at in range(mention.start, mention.end)
    ]
    assert len(covered) == len(set(covered))
    assert [token for token in pair.source if token[0] != "@"] == [
        token for at, token in enumerate(source) if at not in covered
    ]


@given(st.lists(MENTIONS, max_size=8))
def test_longest_spans_overlap_no_other_and_leave_no_mention_free(
    found: list[Mention],
) -> None:
    spans = [(group[0].start, group[0].end) for group in longest_spans(found)]
    covered = [at for start, end in spans for at in range(start, end)]
    assert covered == sorted(set(covered))
    assert all(set(range(each.start, each.end)) & set(covered) for each in found)
