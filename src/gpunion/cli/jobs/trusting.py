"""Names that programs here believe unasked: what a guest sends under one would be run or trusted."""

from __future__ import annotations

from functools import lru_cache

from gpunion.cli.jobs.ignoring import Ignoring, Why

# Hooks and settings of version control, what shells, editors and interpreters read when they start, and the
# folders that hold such things. A file `.git` is one too: it names a folder to be believed.
BELIEVED = frozenset(
    (
        ".git", ".hg", ".svn", ".gitconfig", ".config", ".local", ".docker", ".huggingface", ".ipython",
        ".jupyter", ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile", ".zshrc",
        ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".pam_environment", ".xprofile", ".xsession",
        ".inputrc", ".vimrc", ".exrc", ".pdbrc", ".tmux.conf", ".screenrc", ".hgrc", ".direnvrc", ".rhosts",
        ".shosts",
    )
)  # fmt: skip
_SECRETS = Ignoring()


def is_believed(path: str) -> bool:
    """Whether it, or a folder that it lies in, has such a name, or one that is left out as a secret when
    a directory is sent. Of which kind it is does not matter: a link would do as well."""
    return any(_has_such_a_name(part) for part in path.split("/"))


@lru_cache(maxsize=1 << 14)
def _has_such_a_name(name: str) -> bool:
    return name.lower() in BELIEVED or _SECRETS.left_out(name, is_directory=True) is Why.SECRET
