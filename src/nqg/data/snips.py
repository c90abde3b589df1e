"""SNIPS: utterances with marked slots, as programs: an intent and its slots in the order in which they are said.

Play Making Out by Alexander Rosenbaum off Google Music.
play_music(track="Making Out", artist="Alexander Rosenbaum", service="Google Music")
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nqg.data.examples import Example
from nqg.errors import FormatError
from nqg.files import read_json
from nqg.settings_reader import read_value


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of an utterance; a slot's value if it names the slot as its `entity`."""

    text: str
    entity: str | None = None


@dataclass(frozen=True, slots=True)
class Utterance:
    data: tuple[Chunk, ...]

    def example(self, intent: str, example_id: str) -> Example:
        sentence = " ".join("".join(chunk.text for chunk in self.data).split())
        values = ((chunk.entity, " ".join(chunk.text.split())) for chunk in self.data if chunk.entity)
        slots = ", ".join(f'{slot}="{_escaped(value)}"' for slot, value in values)
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", intent).lower()
        return Example(sentence, f"{name}({slots})", example_id)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')


def load_snips(*paths: Path) -> list[Example]:
    """The examples of files of one intent each, one file after the other."""
    examples: list[Example] = []
    for path in paths:
        found: dict[str, Any] = read_value(dict[str, tuple[Utterance, ...]], read_json(path), "the utterances", path)
        if len(found) != 1:
            raise FormatError(f"expected the utterances of one intent, found {len(found)} intents", path)
        ((intent, utterances),) = found.items()
        examples += [each.example(intent, f"{path.stem}-{number}") for number, each in enumerate(utterances)]
    return examples


def snips_files(slots: Mapping[str, str]) -> dict[str, str]:
    """A settings file with a table of slots, by default free text, and the lists of names that it mentions."""
    lines = [f"{name} = {value or '{ text = 8 }'}\n" for name, value in slots.items()]
    lists = {"countries.txt": COUNTRIES, "states.txt": STATES}
    named = {
        file: names.replace("|", "\n") + "\n" for file, names in lists.items() if any(file in line for line in lines)
    }
    return {"nqg.toml": "".join(["[slots]\n", *lines]), **named}


COUNTRIES = (
    "Afghanistan|Åland Islands|Albania|Algeria|American Samoa|Andorra|Angola|Anguilla|Antarctica|Antigua and Barbuda|"
    "Argentina|Armenia|Aruba|Australia|Austria|Azerbaijan|Bahamas|Bahrain|Bangladesh|Barbados|Belarus|Belgium|Belize|"
    "Benin|Bermuda|Bhutan|Bolivia|Bosnia and Herzegovina|Botswana|Bouvet Island|Brazil|British Virgin Islands|Brunei|"
    "Bulgaria|Burkina Faso|Burma|Burundi|Cambodia|Cameroon|Canada|Cape Verde|Cayman Islands|Central African Republic|"
    "Chad|Chile|China|Christmas Island|Cocos Islands|Colombia|Comoros|Congo|Cook Islands|Costa Rica|Croatia|Cuba|"
    "Curaçao|Cyprus|Czech Republic|Czechia|Denmark|Djibouti|Dominica|Dominican Republic|East Timor|Ecuador|Egypt|"
    "El Salvador|England|Equatorial Guinea|Eritrea|Estonia|Eswatini|Ethiopia|Falkland Islands|Faroe Islands|Fiji|"
    "Finland|France|French Guiana|French Polynesia|Gabon|Gambia|Germany|Ghana|Gibraltar|Great Britain|Greece|"
    "Greenland|Grenada|Guadeloupe|Guam|Guatemala|Guernsey|Guinea|Guinea-Bissau|Guyana|Haiti|Honduras|Hong Kong|"
    "Hungary|Iceland|India|Indonesia|Iran|Iraq|Ireland|Isle of Man|Israel|Italy|Ivory Coast|Jamaica|Japan|Jersey|"
    "Jordan|Kazakhstan|Kenya|Kiribati|Kosovo|Kuwait|Kyrgyzstan|Laos|Latvia|Lebanon|Lesotho|Liberia|Libya|"
    "Liechtenstein|Lithuania|Luxembourg|Macao|Macedonia|Madagascar|Malawi|Malaysia|Maldives|Mali|Malta|"
    "Marshall Islands|Martinique|Mauritania|Mauritius|Mayotte|Mexico|Micronesia|Moldova|Monaco|Mongolia|Montenegro|"
    "Montserrat|Morocco|Mozambique|Myanmar|Namibia|Nauru|Nepal|Netherlands|New Caledonia|New Zealand|Nicaragua|Niger|"
    "Nigeria|Niue|Norfolk Island|North Korea|North Macedonia|Northern Ireland|Northern Mariana Islands|Norway|Oman|"
    "Pakistan|Palau|Palestine|Panama|Papua New Guinea|Paraguay|Peru|Philippines|Pitcairn Islands|Poland|Portugal|"
    "Puerto Rico|Qatar|Réunion|Romania|Russia|Rwanda|Saint Barthélemy|Saint Helena|Saint Kitts and Nevis|Saint Lucia|"
    "Saint Martin|Saint Pierre and Miquelon|Saint Vincent and the Grenadines|Samoa|San Marino|Sao Tome and Principe|"
    "Saudi Arabia|Scotland|Senegal|Serbia|Seychelles|Sierra Leone|Singapore|Sint Maarten|Slovakia|Slovenia|"
    "Solomon Islands|Somalia|South Africa|South Korea|South Sudan|Spain|Sri Lanka|Sudan|Suriname|"
    "Svalbard and Jan Mayen|Swaziland|Sweden|Switzerland|Syria|Taiwan|Tajikistan|Tanzania|Thailand|Togo|Tokelau|"
    "Tonga|Trinidad and Tobago|Tunisia|Turkey|Turkmenistan|Turks and Caicos Islands|Tuvalu|U.S. Virgin Islands|"
    "Uganda|Ukraine|United Arab Emirates|United Kingdom|United States|United States of America|Uruguay|USA|"
    "Uzbekistan|Vanuatu|Vatican|Venezuela|Vietnam|Wales|Wallis and Futuna|Western Sahara|Yemen|Zambia|Zimbabwe"
)
STATES = (
    "Alabama|Alaska|Arizona|Arkansas|California|Colorado|Connecticut|Delaware|District of Columbia|Florida|Georgia|"
    "Hawaii|Idaho|Illinois|Indiana|Iowa|Kansas|Kentucky|Louisiana|Maine|Maryland|Massachusetts|Michigan|Minnesota|"
    "Mississippi|Missouri|Montana|Nebraska|Nevada|New Hampshire|New Jersey|New Mexico|New York|North Carolina|"
    "North Dakota|Ohio|Oklahoma|Oregon|Pennsylvania|Rhode Island|South Carolina|South Dakota|Tennessee|Texas|Utah|"
    "Vermont|Virginia|Washington|West Virginia|Wisconsin|Wyoming"
)
