"""The HTTP API for an application of your own: ``app.mount("/duly", create_api(duly))``. Needs the extra ``server``."""

from duly.api.app import create_api
from duly.api.protocol.request import Caller
from duly.errors import Forbidden, Unauthenticated
from duly.records.api_key import Scope

__all__ = ["Caller", "Forbidden", "Scope", "Unauthenticated", "create_api"]
