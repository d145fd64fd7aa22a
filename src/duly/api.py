"""The HTTP API for an application of your own: ``app.mount("/duly", create_api(duly))``. Takes ``duly[server]``."""

from duly.core.keys import Scope
from duly.edges.http.app import create_api
from duly.edges.http.asking import Caller

__all__ = ["Caller", "Scope", "create_api"]
