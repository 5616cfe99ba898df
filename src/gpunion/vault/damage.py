"""What is wrong with a record that cannot be understood, in words for who has to mend it."""

from __future__ import annotations

import json


def in_words(error: Exception) -> str:
    match error:
        case UnicodeDecodeError():
            return "it is no text any more"
        case json.JSONDecodeError():
            return "it breaks off, or was overwritten"
        case KeyError():
            return "something that belongs into it is not there"
        case _:
            return "it says what cannot be"
