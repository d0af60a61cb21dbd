"""Client and workers of Kinesin, a durable scheduler of delayed tasks.

App is where to begin; plain has the same without async, testing has virtual time, celery has Celery's calls.
"""

from . import _reasons, _types, plain
from ._app import App, Handled
from ._client import ByKey, Chains, Client, Crons, Groups, Item, Lambda, chain
from ._errors import Abandoned, Error, Fatal, NotScheduled, Release, Snooze
from ._reasons import *  # noqa: F403
from ._task import Task
from ._types import *  # noqa: F403

__version__ = "0.1.0"
__all__ = [
    "Abandoned", "App", "ByKey", "Chains", "Client", "Crons", "Error", "Fatal", "Groups", "Handled", "Item",
    "Lambda", "NotScheduled", "Release", "Snooze", "Task", "chain", "plain",
]  # fmt: skip
__all__ += _reasons.__all__
__all__ += _types.__all__
