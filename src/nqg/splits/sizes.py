"""How many examples each part of a split gets."""

from __future__ import annotations

from dataclasses import dataclass

from nqg.errors import SettingsError

Amount = int | float
"""A number of examples (`440`) or a share of the dataset (`0.25`)."""

USUAL_TEST_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class Sizes:
    """Examples in train, test and dev; train and test are never empty."""

    train: int
    test: int
    dev: int = 0

    def __post_init__(self) -> None:
        if self.train < 1 or self.test < 1 or self.dev < 0:
            raise SettingsError(f"the split would get {self}; train and test need at least 1 example each")

    @property
    def total(self) -> int:
        """All examples that the parts hold together."""
        return self.train + self.test + self.dev

    def __str__(self) -> str:
        return f"train {self.train}, dev {self.dev}, test {self.test}"

    def check(self, total: int) -> None:
        """Refuse a dataset of another size than these parts use up."""
        if self.total != total:
            raise SettingsError(
                f"{self} add up to {self.total}, the dataset has {total} examples; "
                "leave out the size of train or of test, and it takes what remains"
            )


def sizes_for(total: int, *, train: Amount | None = None, test: Amount | None = None, dev: Amount = 0) -> Sizes:
    """The sizes for a dataset of `total` examples; a side that is not given takes what remains.

    >>> sizes_for(880, test=440)
    Sizes(train=440, test=440, dev=0)
    >>> sizes_for(4376)
    Sizes(train=3282, test=1094, dev=0)
    >>> sizes_for(880, test=0.2, dev=0.1)
    Sizes(train=616, test=176, dev=88)
    """
    if total < 2:
        raise SettingsError(f"the dataset has {total} examples; a split needs at least 2")
    in_dev = _examples("dev", dev, total)
    if train is None:
        in_test = _examples("test", USUAL_TEST_SHARE if test is None else test, total)
        in_train = total - in_dev - in_test
    else:
        in_train = _examples("train", train, total)
        in_test = total - in_dev - in_train if test is None else _examples("test", test, total)
    sizes = Sizes(in_train, in_test, in_dev)
    sizes.check(total)
    return sizes


def _examples(part: str, amount: Amount, total: int) -> int:
    if isinstance(amount, float):
        if not 0 <= amount < 1:
            raise SettingsError(f"{part} size {amount}: expected a share between 0 and 1, or a whole number")
        return max(round(amount * total), 1 if amount else 0)
    if not 0 <= amount <= total:
        raise SettingsError(f"{part} size {amount}: expected between 0 and {total}, the number of examples")
    return amount
