"""A tables.json of Spider's form, for tests of schemas."""

from __future__ import annotations

import json
from pathlib import Path

PETS = {
    "db_id": "Pets_1",
    "table_names_original": ["Student", "Pets"],
    "column_names_original": [[-1, "*"], [0, "StuID"], [0, "Age"], [1, "PetID"]],
    "foreign_keys": [],
}


def write_tables(folder: Path, *entries: object) -> Path:
    """The file of the entries, one a database."""
    path = folder / "tables.json"
    path.write_text(json.dumps(entries))
    return path
