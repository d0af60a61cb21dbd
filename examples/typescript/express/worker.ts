// The worker: a process of its own, so that a deploy of the web server stops no task. SIGTERM drains it.
import { Fatal } from "kinesin";
import { kinesin, type Reminder, reminders } from "./reminders.ts";

const mail = process.env.MAIL_URL ?? "http://127.0.0.1:8025/send";

kinesin.handler<Reminder>(reminders.name, async (task, signal) => {
  const response = await fetch(mail, {
    method: "POST",
    headers: { "content-type": "application/json", "idempotency-key": task.id }, // an attempt may be repeated
    body: JSON.stringify(task.payload),
    signal,
  });
  if (response.status === 404) throw new Fatal("there is no such user"); // no retry can help
  if (!response.ok) throw new Error(`HTTP ${response.status}`); // is tried again, later and later
});

await reminders.ensure();
await kinesin.run({ slots: 100 });
