"""What names may consist of, as a program checks it and as a person is told."""

from __future__ import annotations

NODE_NAME = r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$"
ONE_LINE = r"^[^\x00-\x1f\x7f]+$"
WORD = r"^[A-Za-z0-9._-]*$"
VARIABLE_NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"

IN_WORDS = {
    NODE_NAME: "letters, digits, dots, dashes and underscores, at most 63 of them, "
    "a letter or a digit first and last",
    ONE_LINE: "one line, without control characters",
    WORD: "letters, digits, dots, dashes and underscores",
    VARIABLE_NAME: "letters, digits and underscores, and no digit first",
}
