"""The advice to install what Duly needs besides its own requirements."""


def install(extra: str) -> str:
    """The command that installs an extra. Duly is not published yet, and its name may be somebody else's there: it is
    installed from a checkout."""
    return f"pip install '.[{extra}]' in a checkout of Duly"
