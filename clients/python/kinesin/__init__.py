"""Client and workers of Kinesin, a durable scheduler of delayed tasks.

App is where to begin; plain has the same without async, testing has virtual time, celery has Celery's calls.
"""

from . import plain
from ._app import App, Handled
from ._client import ByKey, Chains, Client, CronOptions, Crons, Groups, Item, Lambda, Options, chain
from ._errors import (
    Abandoned, Error, Exists, Fatal, Fenced, Full, Internal, InUse, Invalid, KeyConflict, LeaseLost, NotFound,
    NotScheduled, PermissionDenied, Registered, Release, Snooze, StaleSeq, Throttled, TooLarge, TooLate,
    Unauthenticated, Unavailable, UnknownLambda, Unsupported,
)  # fmt: skip
from ._task import Task
from ._types import (
    AttemptInfo, CancelResult, ChainChange, ChainInfo, ChainTask, ChangeResult, CountResult, Cron, CronOccurrence,
    CronPause, GroupEnd, GroupFollowUp, GroupInfo, GroupMember, Job, Link, Member, Occurrence, Parent, Scheduled,
    TaskInfo, WaitsFor,
)  # fmt: skip

__version__ = "0.1.0"
__all__ = [
    "Abandoned", "App", "AttemptInfo", "ByKey", "CancelResult", "ChainChange", "ChainInfo", "ChainTask", "Chains",
    "ChangeResult", "Client", "CountResult", "Cron", "CronOccurrence", "CronOptions", "CronPause", "Crons", "Error",
    "Exists", "Fatal", "Fenced", "Full", "GroupEnd", "GroupFollowUp", "GroupInfo", "GroupMember", "Groups", "Handled",
    "InUse", "Internal", "Invalid", "Item", "Job", "KeyConflict", "Lambda", "LeaseLost", "Link", "Member", "NotFound",
    "NotScheduled", "Occurrence", "Options", "Parent", "PermissionDenied", "Registered", "Release", "Scheduled",
    "Snooze", "StaleSeq", "Task", "TaskInfo", "Throttled", "TooLarge", "TooLate", "Unauthenticated", "Unavailable",
    "UnknownLambda", "Unsupported", "WaitsFor", "chain", "plain",
]  # fmt: skip
