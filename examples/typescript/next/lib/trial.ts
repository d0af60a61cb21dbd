// What the routes and the worker share: a lambda, which is a named kind of work, and the type of its payload.
import { Kinesin } from "kinesin";

export interface Trial { account: string }

export const kinesin = new Kinesin(process.env.KINESIN_SERVER ?? "http://127.0.0.1:7070", { token: process.env.KINESIN_TOKEN });
export const trialEnds = kinesin.lambda<Trial>("trial-ends");
