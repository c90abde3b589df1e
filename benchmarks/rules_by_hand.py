"""Rules by hand: what becomes of answers when a rule that a model has learned is taken out and added by hand.

python benchmarks/rules_by_hand.py MODEL EXAMPLES.tsv

Of the sentences that the model gets right, those whose charts have the rule are answered again, rule by rule.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from dataclasses import replace

import torch

from nqg import Parser
from nqg.answers import exact_match
from nqg.data.examples import read_examples
from nqg.grammar.chart import charts
from nqg.grammar.grammar import Rule
from nqg.model.confidence import ROOT, RulePairs
from nqg.model.scorer import Scorer


def without(parser: Parser, taken: int) -> Parser:
    """The parser as if it had never seen one of its rules; nothing is trained anew."""
    model = parser.model
    left = [number for number in range(len(model.grammar)) if number != taken]
    scorer = Scorer(model.scorer.encoder, len(left), model.settings.dimension)
    scorer.load_state_dict(model.scorer.state_dict() | {"rules": model.scorer.rules[torch.tensor(left)]})
    calibrator, numbers = model.calibrator, {ROOT: ROOT} | {old: new for new, old in enumerate(left)}
    if calibrator:
        rows = (row for row in calibrator.pairs.rows if taken not in (row[0], row[2]))
        pairs = RulePairs(tuple((numbers[parent], slot, numbers[child], n) for parent, slot, child, n in rows))
        calibrator = replace(calibrator, pairs=pairs)
    grammar = replace(model.grammar, rules=tuple(model.grammar[number] for number in left))
    return Parser(replace(model, scorer=scorer, grammar=grammar, calibrator=calibrator))


def main(folder: str, file: str) -> None:
    parser, examples = Parser.load(folder, "cpu"), read_examples(file)
    answers = list(parser.answers(example.source for example in examples))
    right = [each for each, example in zip(answers, examples, strict=True) if exact_match(each.target, example.target)]
    full, having = charts(parser.grammar, [each.source_tokens for each in right]), defaultdict[Rule, list[int]](list)
    for sentence in range(len(right)):
        for number in sorted(set(full.select([sentence]).rules.tolist())):
            having[parser.grammar[number]].append(sentence)
    counts, sure = Counter[tuple[str, bool]](), Counter[tuple[str, bool]]()
    for rule, sentences in having.items():
        bare = without(parser, parser.grammar.numbers[rule])
        asked = [right[sentence] for sentence in sentences]
        texts = [each.source for each in asked]
        both = zip(bare.answers(texts), bare.with_rules([rule]).answers(texts), asked, strict=True)
        for alone, by_hand, wanted in both:
            assert wanted.reading is not None, "it was answered"
            is_needed = any(each.rule == rule for each in wanted.reading.derivation.hyperedges)
            kind = "not needed" if not is_needed else "the only way" if alone.target is None else "needed beside others"
            is_right = by_hand.target == wanted.target
            counts[kind, is_right] += 1
            if by_hand.reading and any(each.rule == rule for each in by_hand.reading.derivation.hyperedges):
                sure["used", is_right] += 1
                sure["used, confidence over 0.9", is_right] += (by_hand.confidence or 0) > 0.9
    print(f"{len(right)} of {len(examples)} sentences are right, {len(having)} rules taken out in turn")
    for kind in sorted({kind for kind, _ in (*counts, *sure)}):
        rights, wrongs = (counts[kind, is_right] + sure[kind, is_right] for is_right in (True, False))
        print(f"{kind:26} {rights:6,} of {rights + wrongs:6,} still right: {rights / max(1, rights + wrongs):.1%}")


if __name__ == "__main__":
    main(*sys.argv[1:])
