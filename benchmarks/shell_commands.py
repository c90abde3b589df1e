"""Sentences and the shell commands that they ask for: real variety, not one pattern.

    python benchmarks/shell_commands.py [COUNT] [SEED] > shell.tsv

People say what they look for, where, and what shall be done with it in any order, leave out what goes
without saying, and have many words for the same thing. Commands are `find` with tests and actions, and
pipelines of `grep`, `du`, `sort`, `tar`, `wc` and others. Nothing is copied from a corpus.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from typing import NamedTuple

from nqg import Example

COUNT = 600


class Phrase(NamedTuple):
    """Words, and the piece of a command that they stand for."""

    words: str
    command: str


PLACES = (
    Phrase("in the current directory", "."),
    Phrase("here", "."),
    Phrase("under the current folder", "."),
    Phrase("in my home directory", "~"),
    Phrase("in /tmp", "/tmp"),
    Phrase("below /var/log", "/var/log"),
    Phrase("inside /etc", "/etc"),
    Phrase("under /usr/local/bin", "/usr/local/bin"),
    Phrase("anywhere on the system", "/"),
    Phrase("in the folder src", "src"),
    Phrase("within docs and its subdirectories", "docs"),
    Phrase("in the parent directory", ".."),
)
SUFFIXES = {
    "c": "C source files",
    "py": "Python scripts",
    "txt": "text files",
    "jpg": "JPEG images",
    "log": "log files",
    "html": "web pages",
    "java": "Java files",
    "md": "markdown files",
    "bak": "backups",
    "csv": "tables",
}
AGES = {
    "today": "-mtime 0",
    "in the last day": "-mtime -1",
    "within the past week": "-mtime -7",
    "more than a month ago": "-mtime +30",
    "in the last hour": "-mmin -60",
    "over a year ago": "-mtime +365",
}
OWNERS = ("root", "alice", "bob", "www-data", "nobody")
MODES = ("644", "755", "600", "777", "700")
UNITS = {"kilobytes": "k", "KB": "k", "megabytes": "M", "MB": "M", "gigabytes": "G"}
TEXTS = ("error", "TODO", "main", "password", "import", "warning", "localhost")


def suffix_kind(rng: random.Random) -> Phrase:
    suffix, known_as = rng.choice(sorted(SUFFIXES.items()))
    words = rng.choice(
        [
            f"{known_as}",
            f"*.{suffix} files",
            f".{suffix} files",
            f"files ending in .{suffix}",
            f"files with the extension {suffix}",
            f"all {known_as}",
        ]
    )
    test = rng.choice([f'-name "*.{suffix}"', f'-type f -name "*.{suffix}"'])
    return Phrase(words, test)


def named_kind(rng: random.Random) -> Phrase:
    name = rng.choice(["Makefile", "README", "core", "config.xml", "passwd", "test"])
    return rng.choice(
        [
            Phrase(f"the file {name}", f"-name {name}"),
            Phrase(f"files named {name}", f"-type f -name {name}"),
            Phrase(f"directories called {name}", f"-type d -name {name}"),
            Phrase(f"{name}, whatever its case", f"-iname {name}"),
            Phrase(f"files whose names begin with {name}", f'-name "{name}*"'),
            Phrase(f"anything with {name} in its name", f'-name "*{name}*"'),
            Phrase(f"everything but {name}", f"! -name {name}"),
        ]
    )


def plain_kind(rng: random.Random) -> Phrase:
    return rng.choice(
        [
            Phrase("all files", "-type f"),
            Phrase("regular files", "-type f"),
            Phrase("directories", "-type d"),
            Phrase("every folder", "-type d"),
            Phrase("symbolic links", "-type l"),
            Phrase("broken links", "-xtype l"),
            Phrase("empty files", "-type f -empty"),
            Phrase("empty directories", "-type d -empty"),
            Phrase("hidden files", '-type f -name ".*"'),
            Phrase("executables", "-type f -executable"),
        ]
    )


def size(rng: random.Random) -> Phrase:
    number = rng.choice(["5", "10", "50", "100", "500", "2"])
    unit, letter = rng.choice(sorted(UNITS.items()))
    amount = f"{number} {unit}"
    return rng.choice(
        [
            Phrase(f"larger than {amount}", f"-size +{number}{letter}"),
            Phrase(f"that are bigger than {amount}", f"-size +{number}{letter}"),
            Phrase(f"of more than {amount}", f"-size +{number}{letter}"),
            Phrase(f"smaller than {amount}", f"-size -{number}{letter}"),
            Phrase(f"of exactly {amount}", f"-size {number}{letter}"),
        ]
    )


def age(rng: random.Random) -> Phrase:
    days = rng.choice(["2", "3", "10", "14", "90"])
    when, test = rng.choice(sorted(AGES.items()))
    return rng.choice(
        [
            Phrase(f"modified {when}", test),
            Phrase(f"changed {when}", test),
            Phrase(f"that were modified {when}", test),
            Phrase(f"older than {days} days", f"-mtime +{days}"),
            Phrase(f"modified less than {days} days ago", f"-mtime -{days}"),
            Phrase(f"not accessed for {days} days", f"-atime +{days}"),
            Phrase("newer than index.html", "-newer index.html"),
        ]
    )


def ownership(rng: random.Random) -> Phrase:
    owner, mode = rng.choice(OWNERS), rng.choice(MODES)
    return rng.choice(
        [
            Phrase(f"owned by {owner}", f"-user {owner}"),
            Phrase(f"that belong to {owner}", f"-user {owner}"),
            Phrase(f"of the group {owner}", f"-group {owner}"),
            Phrase(f"not owned by {owner}", f"! -user {owner}"),
            Phrase(f"with permissions {mode}", f"-perm {mode}"),
            Phrase(f"whose mode is {mode}", f"-perm {mode}"),
        ]
    )


def depth(rng: random.Random) -> Phrase:
    levels = rng.choice(["2", "3", "4"])
    return rng.choice(
        [
            Phrase("without going into subdirectories", "-maxdepth 1"),
            Phrase("but not recursively", "-maxdepth 1"),
            Phrase(f"at most {levels} levels deep", f"-maxdepth {levels}"),
        ]
    )


def action(rng: random.Random) -> tuple[str, str]:
    """A request with a place for what is found, and the end of its command."""
    text, mode = rng.choice(TEXTS), rng.choice(MODES)
    owner, number = rng.choice(OWNERS), rng.choice(["5", "10", "20"])
    find = rng.choice(["find", "list", "show me", "search for", "print", "look for"])
    plain = (f"{find} {{}}", "")
    return rng.choice(
        [
            *[plain] * 8,
            ("delete {}", "-delete"),
            ("remove {}", "-exec rm {{}} \\;"),
            ("count {}", "| wc -l"),
            ("how many are there of {} ?", "| wc -l"),
            ("show the sizes of {}", "-exec du -h {{}} +"),
            ("give a long listing of {}", "-exec ls -l {{}} \\;"),
            ("list {} with their details", "-ls"),
            (f"make {{}} have mode {mode}", f"-exec chmod {mode} {{{{}}}} \\;"),
            (f"give {{}} to {owner}", f"-exec chown {owner} {{{{}}}} \\;"),
            (f"search {{}} for {text}", f'-exec grep -l "{text}" {{{{}}}} +'),
            (f"which of {{}} contain {text} ?", f'| xargs grep -l "{text}"'),
            (f"print lines with {text} in {{}}", f'-exec grep -n "{text}" {{{{}}}} +'),
            (f"copy {{}} to /backup/{owner}", f"-exec cp {{{{}}}} /backup/{owner} \\;"),
            (f"move {{}} to {owner}", f"-exec mv {{{{}}}} {owner} \\;"),
            ("count the lines of {}", "-print0 | xargs -0 wc -l"),
            (
                f"the {number} largest of {{}}",
                f"-printf '%s %p\\n' | sort -nr | head -n {number}",
            ),
            ("archive {}", "-print0 | tar -czf files.tar.gz --null -T -"),
            ("list {} by date", "-printf '%T+ %p\\n' | sort"),
            ("print the names of {} , sorted", "| sort"),
        ]
    )


def find_command(rng: random.Random) -> Example:
    kind = rng.choice([suffix_kind, suffix_kind, named_kind, plain_kind])(rng)
    request, ending = action(rng)
    place, is_deep = rng.choice(PLACES), rng.random() < 0.15
    # Up to two restrictions, of different kinds, said before or behind the place.
    parts = [
        part(rng)
        for part in rng.sample([size, age, ownership], rng.choice([0, 1, 1, 1, 2]))
    ]
    behind = [place.words]
    if place.command == "." and rng.random() < 0.4:
        behind = []
    levels = [depth(rng)] if is_deep else []
    said = [part.words for part in parts]
    rng.shuffle(said)
    restrictions = [*said, *behind]
    if rng.random() < 0.5:
        restrictions = [*behind, *said]
    words = " ".join([kind.words, *restrictions, *(each.words for each in levels)])
    tests = [level.command for level in levels] + [kind.command]
    tests += [part.command for part in parts]
    command = " ".join(["find", place.command, *tests, ending.replace("{{}}", "{}")])
    politeness = rng.choice(["", "", "", "please ", "can you ", "I want to "])
    if not request.startswith(("how", "which", "the")):
        request = politeness + request
    elif request.startswith("the"):
        request = f"show {request}"
    return Example(request.replace("{}", words).strip(), command.strip())


def other_command(rng: random.Random) -> Example:
    """Commands without `find`."""
    text, place = rng.choice(TEXTS), rng.choice(PLACES)
    name = rng.choice(["data.csv", "notes.txt", "access.log", "users.tsv", "list.txt"])
    other, number = rng.choice(TEXTS), rng.choice(["1", "2", "3", "5", "10", "20"])
    archive = rng.choice(["site.tar.gz", "src.tar.gz", "old.tar.gz"])
    return rng.choice(
        [
            Example(
                f"search for {text} {place.words}", f'grep -r "{text}" {place.command}'
            ),
            Example(
                f"which files {place.words} mention {text} ?",
                f'grep -rl "{text}" {place.command}',
            ),
            Example(
                f"how often does {text} occur in {name} ?",
                f'grep -o "{text}" {name} | wc -l',
            ),
            Example(
                f"show the lines of {name} without {text}", f'grep -v "{text}" {name}'
            ),
            Example(
                f"print the first {number} lines of {name}", f"head -n {number} {name}"
            ),
            Example(
                f"show the last {number} lines of {name}", f"tail -n {number} {name}"
            ),
            Example(f"follow {name} as it grows", f"tail -f {name}"),
            Example(f"print column {number} of {name}", f"cut -f {number} {name}"),
            Example(f"sort {name} by column {number}", f"sort -k {number} {name}"),
            Example(f"remove repeated lines from {name}", f"sort -u {name}"),
            Example(
                f"count how often each line of {name} occurs",
                f"sort {name} | uniq -c | sort -nr",
            ),
            Example(
                f"how much space is used {place.words} ?", f"du -sh {place.command}"
            ),
            Example(
                f"the {number} biggest folders {place.words}",
                f"du -h {place.command} | sort -hr | head -n {number}",
            ),
            Example(f"unpack {archive}", f"tar -xzf {archive}"),
            Example(f"what is in {archive} ?", f"tar -tzf {archive}"),
            Example(
                f"replace {text} by {other} in {name}",
                f"sed -i 's/{text}/{other}/g' {name}",
            ),
        ]
    )


def pairs(count: int = COUNT, seed: int = 0) -> list[Example]:
    """So many distinct pairs, and no sentence with two commands."""
    rng = random.Random(seed)
    by_sentence: dict[str, Example] = {}
    for example in drawn(rng):
        by_sentence.setdefault(example.source, example)
        if len(by_sentence) == count:
            return list(by_sentence.values())
    raise AssertionError("the draws never end")


def drawn(rng: random.Random) -> Iterator[Example]:
    while True:
        yield find_command(rng) if rng.random() < 0.8 else other_command(rng)


def main() -> None:
    for example in pairs(*map(int, sys.argv[1:])):
        print(example.source, example.target, sep="\t")


if __name__ == "__main__":
    main()
