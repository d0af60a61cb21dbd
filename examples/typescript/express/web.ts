// A web server that schedules a reminder for each request, and takes it back.
import type { AddressInfo } from "node:net";
import express, { type ErrorRequestHandler } from "express";
import { KinesinError } from "kinesin";
import { kinesin, reminders } from "./reminders.ts";

const web = express();
web.use(express.json());

web.post("/reminders", async (request, response) => {
  const { user, text } = request.body;
  // The key makes a repeated request harmless; a second reminder of the same user takes the place of the first.
  const { id, due } = await reminders.schedule({ user, text }, { delay: "30d", key: `user-${user}`, onConflict: "replace" });
  response.status(202).json({ id, due });
});

web.delete("/reminders/:user", async (request, response) => {
  await kinesin.cancel(reminders.key(`user-${request.params.user}`));
  response.status(204).end();
});

const refused: ErrorRequestHandler = (error, _request, response, next) => {
  if (!(error instanceof KinesinError)) return next(error);
  response.status(error.status || 503).json({ reason: error.reason, detail: error.detail });
};
web.use(refused);

await reminders.ensure(); // creates the lambda
const server = web.listen(Number(process.env.PORT ?? 3000), "127.0.0.1", () => {
  console.log(`listening on http://127.0.0.1:${(server.address() as AddressInfo).port}`);
});
process.once("SIGTERM", () => server.close());
