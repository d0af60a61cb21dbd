"""Writes kinesin/_types.py from the description of the API: python generate.py http://127.0.0.1:7070/v1/openapi.json

The argument is a URL or a file. Only the types that the client shows are written; NAMES has their names in Python.
kinesin/_reasons.py is written from the page about errors.
"""

import json
import keyword
import pathlib
import re
import sys
import textwrap
import urllib.request

NAMES = {
    "Attempt": "AttemptInfo", "CancelResult": "CancelResult", "ChainTask": "ChainTask", "ChangeResult": "ChangeResult",
    "Claimed": "Claimed", "ControlChainResponse": "ChainChange", "CountResponse": "CountResult", "Cron": "Cron",
    "CronOccurrence": "CronOccurrence", "CronPause": "CronPause", "GetChainResponse": "ChainInfo", "Group": "GroupInfo",
    "GroupEnd": "GroupEnd", "GroupFollowUp": "GroupFollowUp", "GroupMember": "GroupMember", "Job": "Job",
    "Link": "Link", "MemberOfGroup": "Member", "Occurrence": "Occurrence", "Parent": "Parent",
    "ScheduleResult": "Scheduled", "Task": "TaskInfo", "WaitsFor": "WaitsFor",
}  # fmt: skip
LEFT_OUT = {
    "Job": "all backfill by cost due examined force group refused sample spread where", "Claimed": "blob prompt", "Task": "blob",
    "CancelResult": "problem", "ChangeResult": "problem", "ScheduleResult": "problem",
}  # fmt: skip
OPTIONS_LEFT_OUT = {
    "Options": "lambda request_id blob then else finally backoff_min backoff_max traceparent",
    "CronOptions": "name lambda schedule dry_run managed_by",
}  # fmt: skip
DOCS = {
    "Attempt": "One attempt of a task.", "CancelResult": "The result of a cancel.", "ChainTask": "A task of a chain, or one that may come.",
    "ChangeResult": "The result of a change of a task.", "Claimed": "An attempt as a worker gets it.",
    "ControlChainResponse": "What became of a chain.", "CountResponse": "A number of tasks.",
    "Cron": "A cron schedules a task of a lambda whenever its schedule says.", "CronOccurrence": "What became of a nominal time.",
    "CronPause": "Why a cron does not fire.", "GetChainResponse": "A chain.", "Group": "A group.",
    "GroupEnd": "After which group a task follows, and how that has ended.", "GroupFollowUp": "A task that may follow after a group.",
    "GroupMember": "Which member of a group a task is.", "Job": "A change of many tasks, which goes on by itself.",
    "Link": "Where in a chain a task is.", "MemberOfGroup": "A member of a group.", "Occurrence": "Which occurrence of a cron a task is.",
    "Parent": "The task before a follow-up, as it ended.",
    "Options": "Options of a task. What is not given is as the lambda says.", "CronOptions": "Settings of a cron.",
    "ScheduleResult": "A task that is durable.", "Task": "A task.", "WaitsFor": "What holds a task back.",
}  # fmt: skip


def type_of(schema):
    """Returns a type of Python, and the default of a field that is always there."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        return NAMES.get(name, "str"), None
    kind = schema.get("type")
    if kind == "array":
        return f"list[{type_of(schema['items'])[0]}]", "field(default_factory=list)"
    if kind == "object":
        return f"dict[str, {type_of(schema['additionalProperties'])[0]}]", "field(default_factory=dict)"
    if kind == "string" and schema.get("format") == "date-time":
        return "datetime", None
    if kind == "string" and "ns|us" in schema.get("pattern", ""):
        return "timedelta", None
    return {"string": ("str", '""'), "integer": ("int", "0"), "boolean": ("bool", "False"), "number": ("float", "0.0")}.get(
        kind, ("Any", "None")
    )


def fields_of(name, schema):
    required = set(schema.get("required", []))
    for prop, s in sorted(schema.get("properties", {}).items(), key=lambda p: p[0]):
        if prop in LEFT_OUT.get(name, "").split() or prop.endswith(("_text", "_base64")) and prop.rsplit("_", 1)[0] in schema["properties"]:
            continue
        python = prop + "_" if keyword.iskeyword(prop) else prop
        hint, default = type_of(s)
        always = prop in required or default and default.startswith("field(")
        always = always or prop == "id" or (prop == "lambda" and name in ("Task", "Claimed")) or (name, prop) == ("Task", "state")
        if hint == "Any":
            declared = f"{python}: Any = None"
        elif always and default:
            declared = f"{python}: {hint} = {default}"
        else:
            declared = f"{python}: {hint} | None = None"
        yield f"    {declared}{note_of(s)}"


def options_of(name, schema, *more):
    """Returns a class of what may be given with a call."""
    yield from ("", "", f"class {name}(TypedDict, total=False):", f'    """{DOCS[name]}"""')
    for prop, s in schema["properties"].items():
        if prop not in OPTIONS_LEFT_OUT[name].split() and not prop.startswith("payload"):
            kind = type_of(s)[0]
            kind = {"timedelta": "Duration", "datetime": "Time"}.get(kind, kind)
            yield f"    {prop}: {kind}{note_of(s)}"
    yield from more


def note_of(schema):
    note = " ".join(schema.get("description", "").split())
    return f"  # {textwrap.shorten(note, 110, placeholder=' …')}" if note else ""


def main():
    source = sys.argv[1]
    if source.startswith("http"):
        with urllib.request.urlopen(source, timeout=10) as answer:
            document = json.load(answer)
    else:
        document = json.loads(pathlib.Path(source).read_text())
    schemas = document["components"]["schemas"]
    lines = [
        '"""Written by generate.py from the description of the API; do not edit."""', "", "# ruff: noqa: E501",
        "from __future__ import annotations", "",
        "from dataclasses import dataclass, field", "from datetime import datetime, timedelta",
        "from typing import Any, TypedDict", "", "from ._wire import Duration, Time", "",
        exported({*NAMES.values(), *OPTIONS_LEFT_OUT} - {"Claimed"}),
    ]  # fmt: skip
    for name, python in sorted(NAMES.items(), key=lambda n: n[1]):
        lines += ["", "", "@dataclass(frozen=True, kw_only=True)", f"class {python}:", f'    """{DOCS[name]}"""']
        lines += fields_of(name, schemas[name])
    lines += options_of(
        "Options", schemas["ScheduleItemRequest"],
        "    backoff: tuple[Duration, Duration]  # the shortest and the longest pause before a retry",
        "    traceparent: str  # W3C trace context; not set: that of the current span of OpenTelemetry",
    )  # fmt: skip
    create_cron = next(o for path in document["paths"].values() for o in path.values() if o["operationId"] == "createCron")
    lines += options_of("CronOptions", create_cron["requestBody"]["content"]["application/json"]["schema"])
    target = pathlib.Path(__file__).parent / "kinesin"
    (target / "_types.py").write_text("\n".join(lines) + "\n")
    (target / "_reasons.py").write_text("\n".join(reasons()) + "\n")


def exported(names):
    return "__all__ = [" + ", ".join(f'"{name}"' for name in sorted(names)) + "]"


def reasons():
    """Yields the classes of the refusals."""
    page = pathlib.Path(__file__).parents[2] / "docs" / "reference" / "errors.md"
    table = page.read_text().split("<!-- errors -->")[1].split("<!-- end of errors -->")[0]
    meanings = {reason.title().replace("_", ""): meaning for reason, meaning in re.findall(r"^\| `(\w+)` \| ([^|]+) \|", table, re.M)}
    yield from ('"""Written by generate.py from docs/reference/errors.md; do not edit."""', "", "# ruff: noqa: E501")
    yield from ("from ._errors import Error", "", exported(meanings))
    for name, meaning in meanings.items():
        yield from ("", "", f"class {name}(Error):", f'    """{meaning}"""')


if __name__ == "__main__":
    main()
