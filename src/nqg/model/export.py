"""The types of a model as grammars for other decoders: JSON Schema, GBNF, Lark."""

from __future__ import annotations

import json

from nqg.errors import NqgError, UnknownName
from nqg.model.checkpoint import SavedModel
from nqg.slots.call_schema import json_program_schema, tool_call_schema
from nqg.slots.grammar_formats import write_gbnf, write_lark
from nqg.slots.string_grammar import string_grammar
from nqg.slots.target_grammars import decoded_grammar

FORMATS = ("json-schema", "gbnf", "lark")


def export_types(model: SavedModel, export_format: str) -> str:
    """The model's types in a format that another decoder reads.

    The grammar describes programs as strings, with the white space of training programs and with
    values for slots.
    """
    if export_format not in FORMATS:
        raise UnknownName("format", export_format, FORMATS)
    if model.target_grammar is None:
        raise NqgError(
            "the model has no types, so that there is nothing to export: it was trained with "
            "`--target-grammar none`; train it without"
        )
    if model.language is not None:
        raise NqgError(
            "the types of a model of a database are those of SQL over its schema, which are not "
            "exported yet"
        )
    # Others decode the programs that users see.
    grammar, programs = decoded_grammar(model.target_grammar, model.text.programs)
    slots = model.text.slots.slots
    if export_format == "json-schema":
        # Tools say more of their arguments than programs do: bounds, and what is required.
        schema = tool_call_schema(model.tools)
        if not model.tools:
            schema = json_program_schema(grammar, programs, slots)
        return json.dumps(schema, ensure_ascii=False, indent=2) + "\n"
    strings = string_grammar(grammar, programs, slots)
    if export_format == "gbnf":
        return write_gbnf(strings)
    return write_lark(strings)
