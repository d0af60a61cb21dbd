"""Written by generate.py from docs/reference/errors.md; do not edit."""

# ruff: noqa: E501
from ._errors import Error

__all__ = ["Exists", "Fenced", "Full", "InUse", "Internal", "Invalid", "KeyConflict", "LeaseLost", "NotFound", "PermissionDenied", "Registered", "StaleSeq", "Throttled", "TooLarge", "TooLate", "Unauthenticated", "Unavailable", "UnknownLambda", "Unsupported"]


class Invalid(Error):
    """A value is outside what is allowed. The text says what is."""


class UnknownLambda(Error):
    """No lambda has that name. Create it first."""


class NotFound(Error):
    """There is no such task, or what else the call names: the retention of a task may be over."""


class KeyConflict(Error):
    """The key is held by another task, such as one with another payload, priority or collection."""


class TooLate(Error):
    """The task has ended, or a worker has it."""


class TooLarge(Error):
    """A payload or a request is above its limit."""


class Full(Error):
    """There is no space for new tasks. Stored tasks still run. Try again after `retry_after`, if there is one."""


class Throttled(Error):
    """An admission quota is used up. The server says when to try again. The SDK and the commands try again after `retry_after`."""


class Unavailable(Error):
    """The call may be tried again. Its outcome may be unknown: a key makes a second try harmless. The SDK and the commands try again."""


class LeaseLost(Error):
    """The worker's lease has ended. Stop its tasks and register again."""


class Fenced(Error):
    """The attempt no longer owns the task. Stop the attempt."""


class Exists(Error):
    """A lambda, cron or token of that name exists with other settings."""


class InUse(Error):
    """The lambda has live tasks, or is being deleted."""


class Unsupported(Error):
    """This server cannot do it, because of its drivers or its roles."""


class Internal(Error):
    """The server failed. Its log has the cause."""


class Unauthenticated(Error):
    """The call had no token, or none that the server accepts."""


class Registered(Error):
    """The lambda is registered (by Terraform). It is deleted with its registration only."""


class PermissionDenied(Error):
    """No grant of the caller allows it. The text names the missing verb."""


class StaleSeq(Error):
    """The thing has changed since the caller read it. Read it again."""
