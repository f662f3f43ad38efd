"""The message for a lab that is started without the packages that only the lab needs."""

from __future__ import annotations

from proxy.package import how_to_install

_EXTRA = "lab"


def missing_extra(program: str, error: ModuleNotFoundError) -> str:
    """Return which extra of this distribution brings the module that `program` did not find.

    Raises `error` itself if the module is one of this distribution's own: no extra would bring it.
    """
    if error.name is None or error.name.partition(".")[0] in {"lab", "operating", "proxy", "protocol", "admission"}:
        raise error
    return f"{program} needs the extra {_EXTRA}: {how_to_install(_EXTRA)} ({error})"
