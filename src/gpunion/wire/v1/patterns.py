"""What names may consist of, as a program checks it and as a person is told."""

from __future__ import annotations

NODE_NAME = r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$"
# Nothing that a terminal obeys, and nothing that turns the order of letters round.
ONE_LINE = r"^[^\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]+$"
WORD = r"^[A-Za-z0-9._-]*$"
# No options in front: they could make a server run something.
SSH_KEY = r"^(ssh|ecdsa|sk)-[A-Za-z0-9@.-]+ [A-Za-z0-9+/]+=*( [^\x00-\x1f\x7f]*)?$"
VARIABLE_NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"

IN_WORDS = {
    NODE_NAME: "letters, digits, dots, dashes and underscores, at most 63 of them, "
    "a letter or a digit first and last",
    ONE_LINE: "one line, without control characters",
    SSH_KEY: "a public key as in the .pub file that ssh-keygen writes",
    WORD: "letters, digits, dots, dashes and underscores",
    VARIABLE_NAME: "letters, digits and underscores, and no digit first",
}
