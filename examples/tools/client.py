"""Asks a model that `nqg serve` serves, through OpenAI's client, and calls what it says.

pip install openai
nqg serve model &
python client.py "Set a timer for 7 minutes and play some jazz"
"""

from __future__ import annotations

import json
import os
import sys

from openai import OpenAI


def set_timer(minutes: int, label: str = "timer") -> str:
    return f"{label}: {minutes} minutes"


def play_music(genre: str = "", artist: str = "", volume: int = 5) -> str:
    return f"playing {genre or artist} at volume {volume}"


# The functions of this program; a sentence that needs another one calls nothing.
FUNCTIONS = {"set_timer": set_timer, "play_music": play_music}
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
    for name in FUNCTIONS
]


def main(sentence: str) -> None:
    address = os.environ.get("NQG_ADDRESS", "http://127.0.0.1:8000/v1")
    client = OpenAI(base_url=address, api_key=os.environ.get("NQG_TOKEN", "none"))
    completion = client.chat.completions.create(
        model="nqg",
        messages=[{"role": "user", "content": sentence}],
        tools=TOOLS,
    )
    message = completion.choices[0].message
    for call in message.tool_calls or []:
        arguments = json.loads(call.function.arguments)
        print(f"{call.function.name}: {FUNCTIONS[call.function.name](**arguments)}")
    if message.content:
        print(message.content)
    print(f"confidence {completion.nqg['confidence']}")


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]))
