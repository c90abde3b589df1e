"""Two readers, one answer: a grammar reads by rules, a sequence-to-sequence model by similarity.

They err differently, so that their agreement is the best evidence there is. Each proposes
candidates and scores those of the other; the confidence in each candidate (`nqg.model.confidence`)
chooses among them, and decides whether the hybrid answers at all.

Without a confidence that was fitted to both, the hybrid is NQG-T5 of section 4 of the paper: the grammar's
answer where it has one, the other system's where it has none, and always who answered.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self, cast

from nqg.answers import (
    BOTH,
    GRAMMAR,
    ILLEGAL,
    SEQ2SEQ,
    Answer,
    Reading,
    Seq2seqReader,
    System,
    checked_sentences,
)
from nqg.errors import NqgError
from nqg.files import write_text
from nqg.inference.decoding import DecodeOptions
from nqg.inference.gaps import explained
from nqg.inference.parser import (
    KNOWN_OUT_OF_SCOPE,
    Parser,
    windows,
    with_threshold,
    withheld,
)
from nqg.inference.sequences import Completed, sequence_answers, unchanged
from nqg.model.checkpoint import RECORDS_FILE, Record, record_lines
from nqg.model.confidence import Calibrator, CallEvidence, Evidence
from nqg.model_folder import SEQ2SEQ_KIND, HubModel, is_of_kind
from nqg.preprocessing.preprocessor import TEXT_FILE, Preprocessor
from nqg.text.sequences import SequenceFormat
from nqg.types.tool_calls import RequiredArguments, missing_argument, program_misfit
from nqg.types.tools import FILE as TOOLS_FILE
from nqg.types.tools import Tool, read_tools, write_tools

# A model without a second reader does not load `nqg.seq2seq`: functions that need it import it.
if TYPE_CHECKING:
    from nqg.seq2seq.seq2seq import Seq2seq
    from nqg.seq2seq.t5_reader import T5Reader

FALLBACK = "seq2seq"  # the subfolder of a model folder
# Candidates of each reader, a bound of work: each reader scores those of the other. On folds of ten
# datasets the right program is among them in 86 % of the sentences, and is the first of either
# reader in 79 %.
CANDIDATES_A_READER = 5


@dataclass(frozen=True, slots=True)
class CandidateProgram:
    """A program that a reader proposes, with what each of them makes of it."""

    target: str
    reading: Reading | None
    evidence: Evidence

    @property
    def probability(self) -> float:
        """How probable the program is for the reader that finds it more probable."""
        return max(
            self.evidence.probability or 0.0,
            math.exp(min(self.log_probability, 0.0)),
        )

    @property
    def log_probability(self) -> float:
        """That of the sequence-to-sequence model; 0 is the logarithm of a certain program."""
        log_probability = self.evidence.log_probability
        return -math.inf if log_probability is None else log_probability


@dataclass(frozen=True)
class Hybrid(HubModel):
    """A parser and another system that reads the same sentences.

    If confidence was learned from both, both read every sentence. Otherwise the fallback answers
    where the parser abstains. With `asks_both` the fallback reads every sentence, so that both can
    be scored.

    >>> from nqg import Answer
    >>> class Dictionary:
    ...     def __init__(self, **words):
    ...         self.words = words
    ...     def answers(self, sentences):
    ...         return [Answer(each, self.words.get(each)) for each in sentences]
    >>> both = Hybrid(Dictionary(walk="W"), Dictionary(walk="J", hop="J"))
    >>> [answer.target for answer in both.answers(["walk", "hop", "swim"])]
    ['W', 'J', None]
    """

    parser: System
    fallback: System
    asks_both: bool = False
    fallback_name: str = "fallback"

    def with_options(self, options: DecodeOptions) -> Hybrid:
        """The same hybrid whose parser has other options of decoding."""
        if not isinstance(self.parser, Parser):
            return self
        return replace(self, parser=self.parser.with_options(options))

    def parse(self, sentence: str, *, readings: int = 0) -> Answer:
        """The answer to one sentence, with its explanation, as `Parser.parse` gives it."""
        if not isinstance(self.parser, Parser):
            return next(self.answers([sentence]))
        options = replace(
            self.parser.options, readings=readings, marginals=True, gaps=True
        )
        return explained(next(self.with_options(options).answers([sentence])))

    def answers(self, sentences: Iterable[str]) -> Iterator[Answer]:
        """The answer to each sentence of a stream, in order."""
        return self._answers(checked_sentences(sentences))

    def _answers(self, sentences: Iterable[str]) -> Iterator[Answer]:
        form: SequenceFormat | None = None
        completed: Completed = unchanged
        if isinstance(self.parser, Parser):
            form = self.parser.model.text.sequence
            completed = self.parser.with_nearest
        for window in windows(sentences):
            yield from sequence_answers(self.single_answers, window, form, completed)

    def single_answers(self, sentences: Iterable[str]) -> Iterator[Answer]:
        """The answers to sentences that are each read as one command."""
        if self.calibrator:
            return self._joint_answers(sentences, self.calibrator)
        return self._grammar_first_answers(sentences)

    @property
    def calibrator(self) -> Calibrator | None:
        """The calibrator of both readers, if confidence was learned from both.

        A file of predictions in the second reader's place proposes no candidates.
        """
        if isinstance(self.parser, Parser) and isinstance(self.fallback, Seq2seqReader):
            calibrator = self.parser.model.calibrator
            if calibrator and calibrator.has_seq2seq:
                return calibrator
        return None

    def _joint_answers(
        self, sentences: Iterable[str], calibrator: Calibrator
    ) -> Iterator[Answer]:
        parser = cast(Parser, self.parser)
        for window in windows(sentences):
            for answer, candidates in self.candidates(window):
                yield self._chosen(answer, candidates, calibrator, parser)

    def candidates(
        self, sentences: Sequence[str]
    ) -> Iterator[tuple[Answer, list[CandidateProgram]]]:
        """For each sentence, the answer of the grammar and the candidates of both readers."""
        parser = cast(Parser, self.parser)
        # The grammar's readings; a candidate is withheld by its own confidence only.
        options = replace(
            parser.options,
            readings=max(parser.options.readings, CANDIDATES_A_READER),
            least_confidence=0.0,
        )
        answers = list(parser.with_options(options).grammar_answers(sentences))
        calls: list[Mapping[str, CallEvidence] | None] = []
        programs: list[list[str]] = []
        for sentence, answer in zip(sentences, answers):
            called = parser.calls_in(parser.model.text.tokenized(sentence)[0])
            calls.append(called)
            programs.append([*legal_readings(answer), *(called or {})])
        tables = self._log_probabilities(sentences, programs)
        for answer, table, read in zip(answers, tables, calls):
            yield answer, joined_candidates(answer, table, read)

    def _log_probabilities(
        self, sentences: Sequence[str], programs: Sequence[Sequence[str]]
    ) -> list[dict[str, float]]:
        """For each sentence, the candidates of the second reader and the given programs, with
        their log probabilities under this reader.
        """
        reader = cast(Seq2seqReader, self.fallback)
        tables: list[dict[str, float]] = []
        # Programs that the second reader did not propose are scored by it.
        missing: list[tuple[int, str]] = []
        proposals = reader.candidates(sentences, CANDIDATES_A_READER)
        for number, proposed in enumerate(proposals):
            table: dict[str, float] = {}
            for proposal in proposed:
                if proposal.target is not None and proposal.target not in table:
                    probability = max(proposal.probability or 0.0, 1e-300)
                    table[proposal.target] = math.log(probability)
            tables.append(table)
            unscored = [program for program in programs[number] if program not in table]
            missing += [(number, program) for program in dict.fromkeys(unscored)]
        pairs = [(sentences[number], program) for number, program in missing]
        for (number, program), log in zip(missing, reader.log_probabilities(pairs)):
            tables[number][program] = log
        return tables

    def _chosen(
        self,
        grammar: Answer,
        candidates: Sequence[CandidateProgram],
        calibrator: Calibrator,
        parser: Parser,
    ) -> Answer:
        """The candidate that is most likely right, if that is likely enough."""
        # Readings that only the choice needed are not shown.
        shown = grammar.readings[: parser.options.readings]
        grammar = replace(grammar, confidence=None, readings=shown)
        if not candidates:
            return replace(
                grammar, parts=(grammar, Answer(grammar.source, system=SEQ2SEQ))
            )
        by_model = max(candidates, key=lambda each: each.log_probability)
        seq2seq = Answer(grammar.source, by_model.target, by_model.probability, SEQ2SEQ)
        best = max(candidates, key=lambda each: calibrator.weights.logit(each.evidence))
        system = GRAMMAR
        if best is by_model and best.target == grammar.target:
            system = BOTH
        elif best is by_model or best.reading is None:
            system = SEQ2SEQ
        answer = replace(
            grammar,
            target=best.target,
            probability=best.probability,
            system=system,
            reason=disagreement(system, grammar, seq2seq),
            confidence=calibrator.weights.confidence(best.evidence),
            reading=best.reading,
            parts=(grammar, seq2seq),
        )
        if calibrator.refuses(grammar.source_tokens):
            return withheld(answer, KNOWN_OUT_OF_SCOPE)
        answer = with_threshold(answer, parser.least_confidence)
        return parser.by_manual_rules(answer)

    def _grammar_first_answers(self, sentences: Iterable[str]) -> Iterator[Answer]:
        ask = self.parser.answers
        if isinstance(self.parser, Parser):
            ask = self.parser.single_answers
        for window in windows(sentences):
            answers = list(ask(window))
            # The fallback is asked about each sentence that needs it once, and about all together.
            unsolved = []
            for sentence, answer in zip(window, answers):
                if self.asks_both or answer.target is None:
                    unsolved.append(sentence)
            fallback = self._fallback_answers(list(dict.fromkeys(unsolved)))
            for sentence, answer in zip(window, answers, strict=True):
                if sentence in fallback:
                    yield grammar_first(answer, fallback[sentence])
                else:
                    yield replace(answer, parts=(answer,))

    def _fallback_answers(self, sentences: Sequence[str]) -> dict[str, Answer]:
        """The fallback's answers to different sentences; without a sentence it is not asked."""
        if not sentences:
            return {}
        answers = list(self.fallback.answers(sentences))
        if len(answers) != len(sentences):
            counts = f"about {len(sentences)} sentences and gave {len(answers)} answers"
            raise NqgError(f"the fallback was asked {counts}")
        named = {}
        for sentence, answer in zip(sentences, answers):
            target = " ".join((answer.target or "").split()) or None
            named[sentence] = replace(answer, target=target, system=self.fallback_name)
        return named

    @classmethod
    def load(
        cls, folder: Path | str, device: str | None = None, *, is_free: bool = False
    ) -> Self:
        """The hybrid in a model folder.

        Where the folder has a grammar of legal targets, the fallback can write no others, unless it
        `is_free` to.
        """
        from nqg.seq2seq.t5_reader import load_reader

        folder = Path(folder)
        parser = Parser.load(folder, device)
        if not has_fallback(folder):
            raise NqgError(
                f"{folder} holds a parser without a fallback; train one into it with: nqg train … --seq2seq"
            )
        reader = load_reader(folder / FALLBACK, device)
        return cls.joined(parser, reader, is_free=is_free)

    @classmethod
    def joined(
        cls,
        parser: Parser,
        seq2seq: Seq2seq | T5Reader,
        *,
        is_free: bool = False,
    ) -> Self:
        """A parser and a fallback that was trained on the same examples."""
        from nqg.seq2seq.legal_decoding import LegalSeq2seq

        text, legal = parser.model.text, parser.model.legal_programs
        fallback: System = seq2seq
        if legal and not is_free:
            fallback = LegalSeq2seq(seq2seq, legal)
        model = parser.model
        reader = TokenSystem(fallback, text, tools=model.tools, required=model.required)
        return cls(parser, reader)

    def save(self, folder: Path | str) -> None:
        """Write everything that `load` needs into a folder, whole or not at all."""
        if not isinstance(self.parser, Parser):
            raise NqgError(
                f"a model folder holds a Parser, found {type(self.parser).__name__}"
            )
        self.parser.save(
            folder,
            also=lambda staging: write_fallback(staging, self.fallback),
        )

    def export(self, export_format: str) -> str:
        """The types of the grammar for another decoder: "json-schema", "gbnf" or "lark"."""
        if not isinstance(self.parser, Parser):
            raise NqgError(f"a Parser has types, found {type(self.parser).__name__}")
        return self.parser.export(export_format)


@dataclass(frozen=True, slots=True)
class TokenSystem:
    """A system that reads raw sentences and was taught tokens of programs, asked for raw programs."""

    system: System
    text: Preprocessor
    # Of the steps of its training, where it was trained here.
    records: tuple[Record, ...] = ()
    # Calls that do not fit the tools, or lack an argument, are not answers.
    tools: tuple[Tool, ...] = ()
    required: RequiredArguments = field(default_factory=dict)

    @classmethod
    def load(cls, folder: Path | str, device: str | None = None) -> TokenSystem:
        """A system without a grammar, as `nqg.paper` trains them."""
        from nqg.seq2seq.t5_reader import load_reader

        path, text = Path(folder) / TEXT_FILE, Preprocessor()
        if path.exists():
            text = Preprocessor.read(path)
        path = Path(folder) / TOOLS_FILE
        tools: tuple[Tool, ...] = ()
        if path.exists():
            tools = read_tools(path)
        return cls(load_reader(Path(folder), device), text, tools=tools)

    def save(self, folder: Path | str) -> None:
        """Write everything that `load` needs into a folder, whole or not at all."""
        from nqg.seq2seq.seq2seq import Seq2seq  # which loads transformers

        def write_more(staging: Path) -> None:
            self.text.write(staging / TEXT_FILE)
            write_text(staging / RECORDS_FILE, record_lines(self.records))
            if self.tools:
                write_tools(staging / TOOLS_FILE, self.tools)

        if not isinstance(self.system, Seq2seq):
            raise NqgError(
                f"a model folder holds a Seq2seq, found {type(self.system).__name__}"
            )
        self.system.save(Path(folder), write_more)

    def with_options(self, options: DecodeOptions) -> TokenSystem:
        """The same system: options of decoding are a grammar's."""
        return self

    def parse(self, sentence: str, *, readings: int = 0) -> Answer:
        """The answer to one sentence; other readings are a grammar's."""
        return next(self.answers([sentence]))

    def answers(self, sentences: Iterable[str]) -> Iterator[Answer]:
        return self._answers(checked_sentences(sentences))

    def _answers(self, sentences: Iterable[str]) -> Iterator[Answer]:
        stream = list(sentences)
        read = [" ".join(sentence.split()) for sentence in stream]
        for sentence, answer in zip(stream, self.system.answers(read), strict=True):
            yield self._raw(sentence, answer)

    def candidates(self, sentences: Sequence[str], count: int) -> list[list[Answer]]:
        """Up to `count` programs of each sentence, the likeliest first."""
        read = [" ".join(sentence.split()) for sentence in sentences]
        system = cast(Seq2seqReader, self.system)
        raw = []
        for sentence, answers in zip(sentences, system.candidates(read, count)):
            programs = [self._raw(sentence, answer) for answer in answers]
            raw.append([answer for answer in programs if answer.target is not None])
        return raw

    def log_probabilities(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The logarithm of the probability of each program, given its sentence."""
        tokenized = []
        for sentence, program in pairs:
            words = self.text.tokenized(sentence)[0].words
            tokens = self.text.programs.normalized(program, words)
            tokenized.append((" ".join(sentence.split()), " ".join(tokens)))
        return cast(Seq2seqReader, self.system).log_probabilities(tokenized)

    def _raw(self, sentence: str, answer: Answer) -> Answer:
        target = answer.target
        if target is not None:
            words = self.text.tokenized(sentence)[0].words
            target = self.text.program(target.split(), words)
        reason = ""
        if target is not None and self.tools:
            reason = program_misfit(target, self.tools)
        elif target is not None and self.required:
            reason = missing_argument(target, self.required)
        if reason:
            return Answer(sentence, reason=f"{ILLEGAL}: {reason}")
        return replace(answer, source=sentence, target=target)


def legal_readings(answer: Answer) -> dict[str, Reading]:
    """The legal programs that a grammar reads in a sentence, the one of its answer first."""
    readings = {}
    if answer.reading and answer.target is not None:
        readings[answer.target] = answer.reading
    for reading in answer.readings:
        if reading.is_legal:
            readings.setdefault(reading.target, reading)
    return readings


def joined_candidates(
    grammar: Answer,
    log_probabilities: Mapping[str, float],
    calls: Mapping[str, CallEvidence] | None = None,
) -> list[CandidateProgram]:
    """The candidates of both readers, given what the other one makes of each program.

    `calls` are those of the grammar's call reader, if it has one.
    """
    readings = legal_readings(grammar)
    candidates = []
    for target, log_probability in log_probabilities.items():
        reading = readings.get(target)
        evidence = Evidence(None, bool(readings), unknown=len(grammar.unknown_words))
        if reading and reading.evidence:
            evidence = replace(reading.evidence, corrected=len(grammar.corrections))
        evidence = replace(evidence, log_probability=log_probability)
        if calls is not None:
            evidence = replace(evidence, call=calls.get(target, CallEvidence()))
        candidates.append(CandidateProgram(target, reading, evidence))
    return candidates


def disagreement(system: str, grammar: Answer, seq2seq: Answer) -> str:
    """What the reader says whose program was not taken."""
    if system == SEQ2SEQ and grammar.target is None:
        return f"the grammar has no program: {grammar.reason}"
    if system == SEQ2SEQ:
        return f"the grammar reads {grammar.target}"
    if system == GRAMMAR and seq2seq.target is not None:
        return f"{SEQ2SEQ} reads {seq2seq.target}"
    return ""


def grammar_first(grammar: Answer, fallback: Answer) -> Answer:
    """The paper's hybrid: the grammar's answer where it has one, else the fallback's.

    >>> grammar, fallback = Answer("run", "RUN"), Answer("run", "JOG", system="fallback")
    >>> grammar_first(grammar, fallback).target
    'RUN'
    """
    both = (grammar, fallback)
    if grammar.target is not None:
        return replace(grammar, parts=both)
    reason = grammar.reason or "no answer"
    if fallback.target is None:
        reason = f"{reason}, and the {fallback.system} has no answer"
        return replace(grammar, reason=reason, parts=both)
    return replace(fallback, source=grammar.source, reason=reason, parts=both)


def load(
    folder: Path | str, device: str | None = None
) -> Parser | Hybrid | TokenSystem:
    """The model in a folder: a parser, a hybrid if there is a second reader, or a system without a
    grammar.

    >>> load("no/such/model")
    Traceback (most recent call last):
    nqg.errors.NqgError: no/such/model: no such folder; `nqg train TRAIN -o no/such/model` would make a model there
    """
    if is_of_kind(Path(folder), SEQ2SEQ_KIND):
        return TokenSystem.load(folder, device)
    return (
        Hybrid.load(folder, device)
        if has_fallback(folder)
        else Parser.load(folder, device)
    )


def load_with_grammar(folder: Path | str, device: str | None = None) -> Parser | Hybrid:
    """What a model folder holds, unless it has no grammar."""
    system = load(folder, device)
    if isinstance(system, TokenSystem):
        commands = "`nqg parse`, `evaluate` and `verify` take it"
        raise NqgError(f"{folder} holds a system without a grammar; {commands}")
    return system


def has_fallback(folder: Path | str) -> bool:
    return (Path(folder) / FALLBACK).is_dir()


def write_fallback(folder: Path, fallback: System) -> None:
    """Write into the model folder of a parser what makes it that of a hybrid."""
    from nqg.seq2seq.legal_decoding import LegalSeq2seq
    from nqg.seq2seq.t5_reader import T5Reader

    model = fallback.system if isinstance(fallback, TokenSystem) else fallback
    if isinstance(model, LegalSeq2seq):
        model = model.seq2seq
    if not isinstance(model, T5Reader):
        from nqg.seq2seq.seq2seq import Seq2seq  # which loads transformers

        if not isinstance(model, Seq2seq):
            raise NqgError(
                f"a model folder holds a Seq2seq as fallback, found {type(model).__name__}; "
                "save the parser alone, and join them again with Hybrid(parser, fallback)"
            )
    model.save(folder / FALLBACK)
