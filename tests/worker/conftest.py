from tests.crash.conftest import app, supervise, url

__all__ = ["app", "supervise", "url"]
