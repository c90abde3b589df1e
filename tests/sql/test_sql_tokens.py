from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.errors import FormatError
from nqg.paper.spider import SpiderEntry, load_spider_xsp, read_entries
from nqg.paper.sql_tree import sql_atoms, sql_template
from nqg.sql.tokens import (
    SPACE,
    is_number,
    sql_text,
    sql_tokens,
    sql_words,
    text_tokens,
)

# Text that is rich in what the tokeniser must tell apart.
SQL_LIKE = st.lists(
    st.sampled_from(
        [
            *(
                "select",
                "and",
                "in",
                "t1",
                "name",
                "_x",
                "18_49",
                "é",
                "²",
                "1",
                "5",
                "3.8",
                "0",
                "1e5",
            ),
            *(
                ".",
                ",",
                "(",
                ")",
                "*",
                ";",
                "=",
                "<",
                ">",
                "!",
                "|",
                "-",
                "+",
                "%",
                " ",
                "  ",
                "\t",
                SPACE,
            ),
            *(
                "''",
                '""',
                "' '",
                "'a b'",
                "'a  b '",
                '"St. John"',
                "'%x_1%'",
                "'o''neil'",
                "'1.5.2'",
                '"it\'s"',
            ),
            f"'{SPACE}x'",
        ]
    ),
    max_size=12,
).map("".join)


def _tokens_or_none(text: str) -> tuple[str, ...] | None:
    try:
        return sql_tokens(text)
    except FormatError:
        return None


class TestWords:
    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("select t1.name", "select t1 . name"),
            ("count(*)>=3", "count ( * ) >= 3"),
            ("a!=b<>c<=d", "a != b <> c <= d"),
            ("a < = b", "a < = b"),
            ("x = 3.8;", "x = 3.8 ;"),
            ("x = 3.", "x = 3 ."),
            ("18_49_rating_share", "18_49_rating_share"),
            ("1.5a", "1 . 5a"),
            ("a || b", "a || b"),
            ("\tselect\n a ", "select a"),
            ("", ""),
        ],
    )
    def test_names_numbers_operators_and_marks_come_apart(
        self, text: str, words: str
    ) -> None:
        assert sql_words(text) == tuple(words.split())

    @pytest.mark.parametrize(
        "string",
        [
            "'a b'",
            '"a b"',
            "''",
            "'o''neil'",
            '"it\'s"',
            "'say \"a\"'",
            '"a""b"',
            "'a  ( , b'",
            "''''",
        ],
    )
    def test_a_quoted_string_is_one_word(self, string: str) -> None:
        assert sql_words(f"x = {string};") == ("x", "=", string, ";")

    @pytest.mark.parametrize(
        "text",
        [
            "between -50 and 50",
            "x = -50",
            "( -50",
            ", -50",
            "and -50",
            "-50",
            "a + -50",
        ],
    )
    def test_a_sign_belongs_to_the_number_where_a_value_is_due(self, text: str) -> None:
        assert "-50" in sql_words(text)

    @pytest.mark.parametrize(
        "text",
        ["a -50", "a-50", "a - 50", "3 -50", "(a) -50", "'x' -50", "_ -50", "x = - 50"],
    )
    def test_a_minus_between_values_is_an_operator(self, text: str) -> None:
        assert sql_words(text)[-2:] == ("-", "50")

    @pytest.mark.parametrize("text", ["x = 'abc", "x = \"abc'", "'''"])
    def test_a_string_without_an_end_is_refused(self, text: str) -> None:
        with pytest.raises(
            FormatError, match=r"opened by ['\"] and never closed in the query"
        ):
            sql_words(text)

    @pytest.mark.parametrize(
        ("word", "answer"), [("5", True), ("-1.5", True), ("1a", False), ("1.", False)]
    )
    def test_numbers_are_told_from_other_words(self, word: str, answer: bool) -> None:
        assert is_number(word) is answer


class TestTokens:
    def test_strings_open_up_for_rules(self) -> None:
        assert sql_tokens('where name = "ann lee"') == (
            "where",
            "name",
            "=",
            '"',
            "ann",
            "lee",
            '"',
        )

    @pytest.mark.parametrize(
        ("string", "tokens"),
        [
            ("'%east%'", "' % east % '"),
            ("'2018-03-17 07:13'", "' 2018 - 03 - 17 07 : 13 '"),
            ("'ph.d.'", "' ph . d . '"),
            ("'st. helena'", f"' st . {SPACE} helena '"),
            ("'tokyo , japan'", f"' tokyo {SPACE} , {SPACE} japan '"),
            ("'% the %'", f"' % {SPACE} the {SPACE} % '"),
            ("'a  b'", f"' a {SPACE} {SPACE} b '"),
            ("'australia\t'", f"' australia {SPACE} '"),
            ("' '", f"' {SPACE} '"),
            ("''", "' '"),
            ("'o''neil'", "' o '' neil '"),
            ('"o\'neil"', '" o \' neil "'),
            ("'version 1.5'", "' version 1.5 '"),
        ],
    )
    def test_spaces_inside_a_string_are_written_only_where_nobody_expects_them(
        self, string: str, tokens: str
    ) -> None:
        assert sql_tokens(string) == tuple(tokens.split())
        assert sql_text(tokens.split()) == string.replace("\t", " ")

    def test_a_sentence_and_a_string_are_cut_alike(self) -> None:
        words = "the St. John's 2018-03-17 offer, 3.5% off"
        inside = sql_tokens(f'"{words}"')[1:-1]
        assert tuple(token for token in inside if token != SPACE) == text_tokens(words)


class TestText:
    @pytest.mark.parametrize(
        "text",
        [
            "select count(*) , max(t1.age) from t as t1 where t1.x in (select y from u);",
            "select a from (select b from c) where not exists (select 1)",
            "select a - b from t where x = -5 and y between -1 and 2.5",
            "select a from t where b like '%st. john%' or b = \"\"",
            "select t1.* from t as t1",
        ],
    )
    def test_the_usual_spacing_is_restored_byte_for_byte(self, text: str) -> None:
        assert sql_text(sql_tokens(text)) == text

    def test_other_spacing_becomes_the_usual_one(self) -> None:
        assert sql_text(
            sql_tokens("select  count ( * ),a\nfrom t\twhere x in( 1 ) ;")
        ) == ("select count(*) , a from t where x in (1);")

    def test_separate_digits_do_not_grow_together(self) -> None:
        assert sql_text(["1", ".", "5"]) == "1 . 5"

    def test_a_string_without_an_end_is_refused(self) -> None:
        with pytest.raises(
            FormatError, match="opened by ' and never closed, before 'a b'"
        ):
            sql_text(["=", "'", "a", "b"])

    @given(SQL_LIKE | st.text(max_size=12))
    def test_tokens_survive_text_and_back(self, text: str) -> None:
        tokens = _tokens_or_none(text)
        if tokens is not None:
            assert sql_tokens(sql_text(tokens)) == tokens

    @given(
        st.text(
            alphabet=st.characters(exclude_characters=["'", SPACE]) | st.just(" "),
            max_size=8,
        )
    )
    def test_the_value_of_a_string_survives_but_for_the_kind_of_its_spaces(
        self, value: str
    ) -> None:
        expected = "".join(" " if letter.isspace() else letter for letter in value)
        assert sql_text(sql_tokens(f"'{value}'")) == f"'{expected}'"

    @given(SQL_LIKE)
    def test_no_token_holds_white_space(self, text: str) -> None:
        for token in _tokens_or_none(text) or ():
            assert token.split() == [token]


class TestAtomsAndTemplates:
    def test_atoms_are_counted_words(self) -> None:
        atoms = sql_atoms("select t1.a from t as t1 where t1.b = 'x y'")
        assert (atoms["t1"], atoms["."], atoms["'x y'"], atoms["x"]) == (3, 2, 1, 0)

    def test_queries_that_differ_in_constants_share_a_template(self) -> None:
        one = sql_template("select a from t where b = 'x' and c > 5 limit 1")
        assert one == sql_template(
            'select a  from t where b = "y z" and c > -70 limit 1'
        )

    def test_names_with_digits_and_decimal_numbers_stay(self) -> None:
        assert (
            sql_template("select t1.a2 from t1 where x > 3.8")
            == "select t1 . a2 from t1 where x > 3.8"
        )


def test_every_query_of_spider_survives_text_and_back(real_data: Path) -> None:
    spider = real_data / "spider"
    queries = [
        entry.query
        for name in ("train_spider.json", "dev.json")
        for entry in read_entries(SpiderEntry, spider / name)
    ]
    assert len(queries) == 8034
    assert [
        query
        for query in queries
        if sql_tokens(sql_text(sql_tokens(query))) != sql_tokens(query)
    ] == []


def test_what_the_text_of_a_spider_query_loses_is_space_beside_brackets_and_commas(
    real_data: Path,
) -> None:
    train, dev = load_spider_xsp(
        real_data / "spider/train_spider.json", real_data / "spider/dev.json"
    )
    pairs = [
        (example.target, sql_text(sql_tokens(example.target)))
        for example in train + dev
    ]
    changed = [(before, after) for before, after in pairs if before != after]
    assert len(changed) == 144
    for before, after in changed:
        assert _without_space_at_marks(before) == _without_space_at_marks(after)


def _without_space_at_marks(text: str) -> str:
    for mark in "(),":
        text = text.replace(f" {mark}", mark).replace(f"{mark} ", mark)
    return text
