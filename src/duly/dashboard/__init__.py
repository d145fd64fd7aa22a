"""The dashboard: pages over the verbs of Duly, at ``/`` of ``duly serve``. Needs the extra ``server``."""
