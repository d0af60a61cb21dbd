// The worker: a Node process beside Next, since routes live too briefly to wait for tasks. SIGTERM drains it.
import { kinesin, type Trial, trialEnds } from "./lib/trial.ts";

kinesin.handler<Trial>(trialEnds.name, async (task) => {
  console.log(`the trial of ${task.payload.account} ends, attempt ${task.attempt}`);
});

await trialEnds.ensure();
await kinesin.run({ slots: 10 });
