// What the web server and the worker share: a lambda, which is a named kind of work, and the type of its payload.
import { Kinesin } from "kinesin";

export interface Reminder { user: string; text: string }

export const kinesin = new Kinesin(process.env.KINESIN_SERVER ?? "http://127.0.0.1:7070");
export const reminders = kinesin.lambda<Reminder>("send-reminder", { maxAttempts: 8 });
