"""An API that schedules reminders when it is asked to, and runs them in the same process.

    uvicorn main:api
"""

import asyncio
import contextlib
from dataclasses import dataclass

import fastapi
import kinesin

app = kinesin.App()  # at KINESIN_SERVER, or http://127.0.0.1:7070
mailed: list[int] = []  # what stands for a mail


@dataclass
class Reminder:
    user: int
    text: str


@app.handler("send-reminder", max_attempts=8)
async def send(task: kinesin.Task[Reminder]) -> None:
    mailed.append(task.payload.user)


@contextlib.asynccontextmanager
async def worker(_: fastapi.FastAPI):
    """Runs the handlers while the API is up. With signals=False the server drains them when it shuts down."""
    await app.ensure()
    running = asyncio.create_task(app.run(slots=10, signals=False))
    yield
    app.stop()
    await running


api = fastapi.FastAPI(lifespan=worker)


@api.post("/reminders/{user}", status_code=202)
async def remind(user: int, text: str, delay: str = "30d") -> dict[str, str]:
    """Schedules a reminder. The key makes a repeated request harmless."""
    task = await send.schedule(Reminder(user, text), delay=delay, key=f"reminder-{user}")
    return {"id": task.id}


@api.delete("/reminders/{user}")
async def forget(user: int) -> dict[str, str | None]:
    try:
        return {"outcome": (await app.cancel(send.by_key(f"reminder-{user}"))).outcome}
    except (kinesin.NotFound, kinesin.TooLate) as e:
        raise fastapi.HTTPException(404, e.detail) from None
