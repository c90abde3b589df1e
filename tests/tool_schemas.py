"""Twelve tools as public APIs describe them, in our own words: four in each format."""

from __future__ import annotations

from typing import Any

WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_forecast",
        "description": "The weather at a place, for up to ten days.",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {
                "location": {"type": "string", "description": "City, or 'lat,lon'"},
                "unit": {
                    "type": "string",
                    "enum": ["celsius", "fahrenheit"],
                    "default": "celsius",
                },
                "days": {"type": "integer", "minimum": 1, "maximum": 10},
                "hourly": {"type": "boolean", "default": False},
            },
            "required": ["location"],
            "additionalProperties": False,
        },
    },
}
CALENDAR: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "create_event",
        "description": "Add an event to a calendar.",
        "parameters": {
            "type": "object",
            "properties": {
                "summary": {"type": "string", "minLength": 1, "maxLength": 250},
                "start": {"$ref": "#/$defs/moment"},
                "end": {"anyOf": [{"$ref": "#/$defs/moment"}, {"type": "null"}]},
                "attendees": {
                    "type": "array",
                    "items": {"type": "string", "format": "email"},
                    "uniqueItems": True,
                },
                "reminder": {"type": "string", "format": "duration"},
                "visibility": {"enum": ["default", "public", "private", None]},
            },
            "required": ["summary", "start"],
            "$defs": {
                "moment": {
                    "type": "object",
                    "title": "Moment",
                    "properties": {
                        "date": {"type": "string", "format": "date"},
                        "time": {"type": "string", "format": "time"},
                        "time_zone": {"type": "string", "pattern": "^[A-Za-z_/]+$"},
                    },
                    "required": ["date"],
                }
            },
        },
    },
}
HOME: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "light_turn_on",
        "description": "Switch a light on.",
        "parameters": {
            "type": "object",
            "properties": {
                "area": {"type": "string", "enum": ["kitchen", "living_room", "attic"]},
                "brightness_pct": {"type": "number", "minimum": 0, "maximum": 100},
                "rgb_color": {
                    "type": "array",
                    "items": {"type": "integer", "minimum": 0, "maximum": 255},
                    "minItems": 3,
                    "maxItems": 3,
                },
                "transition": {"type": ["number", "null"], "exclusiveMinimum": 0},
            },
            "required": ["area"],
        },
    },
    "cache_control": {"type": "ephemeral"},
}
SEARCH: dict[str, Any] = {
    "type": "function",
    "function": {"name": "search_now", "description": "Ask the search engine again."},
}
BANK: dict[str, Any] = {
    "name": "transfer_money",
    "description": "Send money from one account to another.",
    "parameters": {
        "type": "object",
        "properties": {
            "amount": {"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.01},
            "currency": {"type": "string", "pattern": "^[A-Z]{3}$"},
            "iban": {"type": "string", "minLength": 15, "maxLength": 34},
            "kind": {"const": "sepa"},
            "execute_on": {"type": "string", "format": "date", "nullable": True},
        },
        "required": ["amount", "currency", "iban"],
    },
}
MAPS: dict[str, Any] = {
    "name": "directions",
    "parameters": {
        "type": "object",
        "properties": {
            "origin": {
                "oneOf": [
                    {"type": "string"},
                    {
                        "type": "object",
                        "properties": {
                            "lat": {"type": "number", "minimum": -90, "maximum": 90},
                            "lng": {"type": "number", "minimum": -180, "maximum": 180},
                        },
                        "required": ["lat", "lng"],
                        "additionalProperties": False,
                    },
                ]
            },
            "mode": {"enum": ["driving", "walking", "bicycling", "transit"]},
            "avoid": {
                "type": "array",
                "items": {"type": "string", "enum": ["tolls", "highways", "ferries"]},
            },
            "departure": {"type": "string", "format": "date-time"},
        },
        "required": ["origin"],
    },
}
EMAIL: dict[str, Any] = {
    "type": "function",
    "name": "send_email",
    "description": "Send a message.",
    "parameters": {
        "type": "object",
        "properties": {
            "to": {
                "type": "array",
                "minItems": 1,
                "items": {"type": "string", "format": "email"},
            },
            "subject": {"type": "string", "default": ""},
            "body": {"type": "string", "examples": ["See you tomorrow."]},
            "headers": {"type": "object", "additionalProperties": {"type": "string"}},
            "priority": {"type": "integer", "enum": [1, 2, 3]},
        },
        "required": ["to", "body"],
    },
}
TRANSLATION: dict[str, Any] = {
    "name": "translate",
    "description": "Translate a text.",
    "input_schema": {
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "target": {"type": "string", "enum": ["de", "en", "es", "fr"]},
            "source": {"type": ["string", "null"], "default": None},
            "formality": {"enum": ["more", "less"]},
        },
        "required": ["text", "target"],
    },
}
TICKETS: dict[str, Any] = {
    "name": "create_issue",
    "title": "Create an issue",
    "description": "Open an issue in a project.",
    "inputSchema": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "project": {"type": "string", "pattern": "^[A-Z][A-Z0-9]+$"},
            "type": {"type": "string", "enum": ["bug", "task", "story"]},
            "labels": {"type": "array", "items": {"type": "string"}, "maxItems": 10},
            "parent": {"$ref": "#/definitions/key"},
        },
        "required": ["project", "type"],
        "definitions": {"key": {"type": "string", "pattern": "^[A-Z]+-[0-9]+$"}},
    },
    "annotations": {"readOnlyHint": False, "destructiveHint": False},
}
MUSIC: dict[str, Any] = {
    "name": "start_playback",
    "description": "Play an album, an artist or tracks on a device.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "context_uri": {"type": "string", "format": "uri"},
            "uris": {"type": "array", "items": {"type": "string", "format": "uri"}},
            "offset": {
                "type": "object",
                "properties": {"position": {"type": "integer", "minimum": 0}},
            },
            "shuffle": {"type": "boolean"},
        },
    },
}
FILES: dict[str, Any] = {
    "name": "files/search",
    "description": "Find files below a folder.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "pattern": {"type": "string"},
            "exclude": {"type": "array", "items": {"type": "string"}, "default": []},
            "filter": {"$ref": "#/$defs/filter"},
        },
        "required": ["path", "pattern"],
        "$defs": {
            "filter": {
                "type": "object",
                "properties": {
                    "not": {"$ref": "#/$defs/filter"},
                    "larger_than": {"type": "integer"},
                },
            }
        },
    },
}
PAYMENTS: dict[str, Any] = {
    "name": "create_refund",
    "description": "Give money back.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "charge": {"type": "string", "pattern": "^ch_"},
            "amount": {"type": "integer", "minimum": 1},
            "reason": {
                "allOf": [
                    {"type": "string"},
                    {"enum": ["duplicate", "fraudulent", "requested_by_customer"]},
                ]
            },
            "metadata": {"type": "object", "additionalProperties": True},
        },
        "required": ["charge"],
    },
    "outputSchema": {"type": "object"},
}

SCHEMAS = [
    WEATHER,
    CALENDAR,
    HOME,
    SEARCH,
    BANK,
    MAPS,
    EMAIL,
    TRANSLATION,
    TICKETS,
    MUSIC,
    FILES,
    PAYMENTS,
]
