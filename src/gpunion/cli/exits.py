"""Exit codes, and the one exception whose message is meant for people."""

from __future__ import annotations

OK, ERROR, USAGE, NOT_FOUND, DENIED, CONFLICT, UNAVAILABLE = range(7)
DAMAGED = 65
TIMEOUT = 124
INTERRUPTED = 130

MEANINGS = {
    OK: "it was done",
    ERROR: "it could not be done, and why",
    USAGE: "the command, or a file it reads, was not understood",
    NOT_FOUND: "there is no such job, node or file",
    DENIED: "the token is missing or wrong, or permission is lacking",
    CONFLICT: "the state of things forbids it",
    UNAVAILABLE: "the coordinator or the agent cannot be reached",
    DAMAGED: "the coordinator's database has lost something: a person has to decide",
    TIMEOUT: "no answer in time",
    INTERRUPTED: "interrupted with Ctrl-C; a job that was followed goes on",
}


class Trouble(Exception):
    """What happened, why, and what to do next. Ends the command; is shown without a traceback."""

    def __init__(self, what: str, *, why: str = "", next_step: str = "", code: int = ERROR) -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.next_step = next_step
        self.code = code

    def text(self) -> str:
        lines = [f"Error: {self.what}"]
        if self.why:
            between = "" if self.why.startswith("\n") else " "  # a table begins on a line of its own
            lines.append(f"Why:{between}{self.why}")
        if self.next_step:
            lines.append(f"Next: {self.next_step}")
        return "\n".join(lines)

    def as_json(self) -> dict[str, object]:
        return {
            "error": self.what,
            "why": self.why or None,
            "next_step": self.next_step or None,
            "exit_code": self.code,
        }
