// A route that schedules the end of a trial. Scheduling needs fetch alone: the route runs with `runtime = "edge"`, too.
import { KinesinError } from "kinesin";
import { trialEnds } from "../../../lib/trial.ts";

export async function POST(request: Request): Promise<Response> {
  const { account } = (await request.json()) as { account: string };
  try {
    // The key makes a repeated request harmless: it returns the task that is there.
    const { id, due, duplicate } = await trialEnds.schedule({ account }, { delay: "14d", key: `account-${account}` });
    return Response.json({ id, due }, { status: duplicate ? 200 : 201 });
  } catch (error) {
    if (!(error instanceof KinesinError)) throw error;
    return Response.json({ reason: error.reason, detail: error.detail }, { status: error.status || 503 });
  }
}
