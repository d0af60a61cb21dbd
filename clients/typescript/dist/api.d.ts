/** A time to send: a Date, or RFC 3339 text. Answers have text with microseconds, in UTC. */
export type Time = Date | string;
/** Fields whose value is a map: its keys are names, which stay as they are. */
export declare const maps: ReadonlySet<string>;
export interface Attempt {
    /** when it ended; not set: it has not ended */ end?: string;
    /** of a failure, for people */ error?: string;
    /** 1 is the first of the task */ number: number;
    /** how it ended; not set: it has not */ outcome?: "success" | "retriable_failure" | "fatal_failure" | "snoozed" | "released" | "cancelled" | "worker_lost" | "unstarted" | "dropped" | (string & {});
    /** when it started */ start?: string;
    /** of the worker's program, as it said when it registered; not set: it did not */ version?: string;
    /** id of the lease of its worker */ worker?: string;
}
export interface Backfill {
    cron?: string; /** nominal times from here on */
    from?: string; /** of a dry run: the first nominal times, at most ten */
    sample: string[]; /** nominal times before here */
    to?: string;
}
export interface BackfillSettings {
    /** allows more than 100,000 occurrences */ all?: boolean;
    /** only count */ dryRun?: boolean;
    /** nominal times from here on */ from: Time;
    /** tasks per second; not set: the recovery quota of the lambda, or no limit */ pace?: number;
    /** a 16-byte UUIDv7 chosen by the client makes a repeated call harmless */ requestId?: string;
    /** nominal times before it */ to: Time;
}
export interface Breaker {
    failures?: number; /** over which they are counted, 10 s to 1 h; not set: 1 min */
    window?: string;
}
export interface BreakerSettings {
    failures?: number; /** over which they are counted, 10 s to 1 h; not set: 1 min */
    window?: string;
}
export interface CancelResult {
    id: string; /** cancelled: it does not start. cancelling: it runs, and its worker was asked to stop it. */
    outcome: string; /** TOO_LATE: it has ended, or it is on the queue of a deliver lambda */
    problem?: Problem; /** of the task before the cancel */
    state?: string;
}
export interface ChainChange {
    changed: number; /** the id of its first task */
    id?: string; /** of cancel: tasks that it found and that run on, since else or finally leads to them */
    left: number; /** of cancel: tasks that run, and were told to stop */
    told: number;
}
export interface ChainInfo {
    /** how many of its tasks are there, as far as shown */ count: number;
    /** the id of its first task */ id: string;
    /** it has more tasks than are shown */ more: boolean;
    /** its first task, with all that follow it */ root: ChainTask;
    /** live, paused or ended */ state: string;
}
export interface ChainTask {
    /** number of its newest attempt; 0: none */ attempt: number;
    /** It follows an earlier end of the task before it, which was redriven since, or comes after such a task. */ beforeRedrive: boolean;
    /** of the task; not set: it is in none */ collection?: string;
    /** of one that is planned */ delay?: string;
    /** not set: not known yet */ due?: string;
    /** not set: it is the first */ edge?: "then" | "else" | "finally" | (string & {});
    /** when it ended; not set: it has not ended */ ended?: string;
    /** of its last attempt, if it did not succeed */ error?: string;
    /** the tasks that follow it, or may */ followups: ChainTask[];
    /** not set: it is not there (yet) */ id?: string;
    /** whose task it is */ lambda: string;
    /** it does not start before its chain is resumed */ paused: boolean;
    /** first start; not set: it has not started */ started?: string;
    /** The state of the task; or planned: the task before it has not ended; skipped: that ended in another way; missing: it is not kept any more, or its lambda was deleted. */ state: string;
    /** for people: what a task waits for that has not started */ waitsFor?: string;
}
export interface ChangeResult {
    /** when it is due now */ due?: string;
    /** of the task */ id: string;
    /** over HTTP: says that a due time in the past was taken for now */ note?: string;
    /** TOO_LATE: a worker has the task, or it has ended; STALE_SEQ; KEY_CONFLICT */ problem?: Problem;
    /** rises with each change; the ETag */ seq: number;
    /** after the change, or as it was found if there is a problem */ state: string;
}
export interface Claimed {
    /** fencing number */ attempt: number;
    /** id of the chain; not set: it is in none */ chain?: string;
    /** names the attempt: the 16 bytes of its task */ claim: string;
    /** label for a subset of the lambda's tasks; not set: none */ collection?: string;
    /** when it was scheduled */ created: string;
    /** when it was to start */ due: string;
    /** earlier attempts that count against max_attempts */ failures: number;
    /** not set: it does not follow after a group */ group?: GroupEnd;
    /** How long after receipt the worker must wait before it starts the task, so that it needs no clock of its own. */ hold: string;
    /** public id */ id: string;
    /** idempotency key; not set: none */ key?: string;
    /** whose task it is */ lambda: string;
    /** so many failures, and it is dead */ maxAttempts: number;
    /** not set: it is no member of a group */ member?: GroupMember;
    /** not set: no cron has scheduled it */ occurrence?: Occurrence;
    /** not set: the task follows no other */ parent?: Parent;
    /** for the handler; not set: nothing, or see blob */ payload?: unknown;
    /** one of the lambda's */ priority?: string;
    /** The worker sends the result without waiting for others: a task of the lambda may wait for its end. */ prompt: boolean;
    /** by name; at most 16 */ tags?: Record<string, string>;
    /** the attempt must have ended after so long */ timeout?: string;
    /** W3C trace context for the handler; not set: none */ traceparent?: string;
    /** earlier attempts whose worker was lost; not counted in failures */ workerLost: number;
}
export interface Count {
    count: number; /** the tasks were counted, not estimated */
    exact: boolean; /** rows that were read for it */
    examined: number;
}
export interface CronHistory {
    occurrences: CronOccurrence[];
}
export interface CronInfo {
    /** which missed occurrences run: last (default), none or all */ catchUp?: "none" | "last" | "all" | (string & {});
    /** of all: how many at most; not set: 1,000 */ catchUpMax?: number;
    /** of all: how long ago at most; not set: a day */ catchUpWithin?: string;
    /** label of its tasks; not set: none */ collection?: string;
    /** when it was created */ created?: string;
    /** an identity */ createdBy?: string;
    /** no nominal time at or after it; not set: no bound */ end?: string;
    /** so many failed occurrences in a row pause the cron; not set: none does */ failuresMax?: number;
    /** a time of day that a clock change makes happen twice: first (default) or both */ fold?: "first" | "both" | (string & {});
    /** a time of day that a clock change leaves out: shift (default) or skip it */ gap?: "shift" | "skip" | (string & {});
    /** each occurrence is due later by less than this, always by the same; at most 24h, in whole milliseconds */ jitter?: string;
    /** a managed lambda; cannot change */ lambda: string;
    /** it fires no more, and can only be deleted */ lambdaDeleted?: boolean;
    /** name of the declared set that it is of; not set: none */ managedBy?: string;
    /** of 1 to 64 letters, digits, _ and -; cannot change */ name: string;
    /** nominal times to come, at most 5; none while it is paused */ next?: string[];
    /** an occurrence while an earlier one has not ended: skip it (default), allow both, have it queue, cancel the earlier one first, or replace one that has not started */ overlap?: "allow" | "skip" | "queue" | "cancel" | "replace" | (string & {});
    /** not set: it is not paused */ pause?: CronPause;
    /** {{nominal}} in it becomes the nominal time */ payload?: unknown;
    /** of its tasks, one of the lambda's; not set: its default */ priority?: string;
    /** the lambda's registration made it, and it alone changes and deletes it */ registered?: boolean;
    /** Set by the server. number of its settings that decide about occurrences from now on */ revision?: number;
    /** when it fires: five fields, six with seconds first, @daily, @every 90s or an RRULE */ schedule: string;
    /** no nominal time before it, from which @every and an RRULE count; not set: no bound */ start?: string;
    /** of its tasks */ tags?: Record<string, string>;
    /** when it was changed last */ updated?: string;
    /** an identity */ updatedBy?: string;
    /** rises with each change */ version: number;
    /** in the answer to SetCron alone: what its author may not have meant, such as six fields, the first of which is seconds */ warning?: string;
    /** IANA name of the zone whose clock it follows; not set: UTC */ zone?: string;
}
export interface CronOccurrence {
    /** its task is that of a backfill */ backfill: boolean;
    /** of its task; not set: it has none */ id?: string;
    /** how long after its due time it first started; not set: it was not started */ late?: string;
    /** RunCron has scheduled its task, and nominal is when */ manual: boolean;
    /** the time at which the cron's expression fires */ nominal?: string;
    /** ran, runs, waits, skipped, missed or forgotten (its row is gone) */ outcome?: string;
    /** of what was skipped or missed */ reason?: string;
    /** number of the cron's settings that were in charge */ revision: number;
    /** of its task */ state?: string;
}
export interface CronPause {
    at?: string; /** an identity; not set: its failure limit */
    by?: string; /** why, for people */
    reason?: string; /** when it resumes by itself; not set: never */
    until?: string;
}
export interface CronPauseSettings {
    reason: string; /** not set: until it is resumed */
    until?: Time;
}
export interface CronSettings {
    /** which missed occurrences run: last (default), none or all */ catchUp?: "none" | "last" | "all";
    /** of all: how many at most; not set: 1,000 */ catchUpMax?: number;
    /** of all: how long ago at most; not set: a day */ catchUpWithin?: string;
    /** label of its tasks; not set: none */ collection?: string;
    /** refuse what would be refused, and change nothing */ dryRun?: boolean;
    /** no nominal time at or after it; not set: no bound */ end?: Time;
    /** so many failed occurrences in a row pause the cron; not set: none does */ failuresMax?: number;
    /** a time of day that a clock change makes happen twice: first (default) or both */ fold?: "first" | "both";
    /** a time of day that a clock change leaves out: shift (default) or skip it */ gap?: "shift" | "skip";
    /** each occurrence is due later by less than this, always by the same; at most 24h, in whole milliseconds */ jitter?: string;
    /** a managed lambda; cannot change */ lambda: string;
    /** name of the declared set that it is of; not set: none */ managedBy?: string;
    /** of 1 to 64 letters, digits, _ and -; cannot change */ name: string;
    /** an occurrence while an earlier one has not ended: skip it (default), allow both, have it queue, cancel the earlier one first, or replace one that has not started */ overlap?: "allow" | "skip" | "queue" | "cancel" | "replace";
    /** {{nominal}} in it becomes the nominal time */ payload?: unknown;
    /** of its tasks, one of the lambda's; not set: its default */ priority?: string;
    /** when it fires: five fields, six with seconds first, @daily, @every 90s or an RRULE */ schedule: string;
    /** no nominal time before it, from which @every and an RRULE count; not set: no bound */ start?: Time;
    /** of its tasks */ tags?: Record<string, string>;
    /** IANA name of the zone whose clock it follows; not set: UTC */ zone?: string;
}
export interface FollowupsSettings {
    else?: Item[]; /** tasks that follow any end */
    finally?: Item[]; /** tasks that follow a success */
    then?: Item[];
}
export interface GroupCancelled {
    group?: GroupInfo; /** that cancels the members */
    job?: Job;
}
export interface GroupEnd {
    /** the group was cancelled before all members had ended */ cancelled: boolean;
    /** members in each end, when the group was done */ ended: Record<string, number>;
    /** the group expired; members that ended is less than members then */ expired: boolean;
    /** id of the group */ group?: string;
    /** how many the group has */ members: number;
}
export interface GroupFollowUp {
    edge?: "then" | "else" | "finally" | (string & {}); /** of the task; not set: none follows, or none yet */
    id?: string; /** whose task it is */
    lambda?: string; /** why none could follow */
    problem?: string;
}
export interface GroupInfo {
    /** not set: it was not cancelled */ cancelled?: string;
    /** an identity */ cancelledBy?: string;
    /** when the last member was seen to have ended, or the group expired */ completed?: string;
    /** The first members, so many, were counted by their state. */ counted: number;
    /** members by state */ counts: Record<string, number>;
    /** when it was made */ created?: string;
    /** an identity */ createdBy?: string;
    /** lambda of the task that follows instead if a member did not succeed; not set: none */ else?: string;
    /** when it expires if it is not done */ expires?: string;
    /** id of the task that followed */ followUp?: string;
    /** all that may follow, in the order in which they were named */ followUps: GroupFollowUp[];
    /** of the group */ id: string;
    /** how many it has; at most 100,000 */ members: number;
    /** why none could follow */ problem?: string;
    /** open, sealed, done or expired */ state: string;
    /** lambda of the task that follows */ then?: string;
}
export interface GroupMember {
    group?: string; /** of the member in its group; 0 is the first */
    index: number;
}
export interface GroupSettings {
    /** tasks that follow instead if a member did not succeed, or the group expired or was cancelled */ else?: Item[];
    /** not set: 30 days from now */ expires?: Time;
    /** tasks that follow however the group ends */ finally?: Item[];
    /** 16 bytes of a UUIDv7, which becomes the id; not set: the server chooses */ requestId?: string;
    /** tasks that follow when all members have ended; with else or finally only if all of them succeeded; at most 100 in the three lists */ then?: Item[];
}
export interface Heartbeat {
    cancels: string[]; /** stop these attempts: they no longer own their tasks */
    fenced: string[]; /** the time of the server */
    now?: string;
}
export interface Item {
    /** the longest pause between attempts; not set: the lambda's */ backoffMax?: string;
    /** the shortest pause between attempts; set both or none; not set: the lambda's */ backoffMin?: string;
    /** label for a subset of the lambda's tasks; at most 128 bytes; not set: none */ collection?: string;
    /** when to start, from now; instead of due */ delay?: string;
    /** When to start: set at most one of the two; neither means now. The past means now, and before 2001 is refused. */ due?: Time;
    /** tasks that follow any other end */ else?: Item[];
    /** tasks that follow any end */ finally?: Item[];
    /** idempotency key: same lambda and key, same task; at most 256 bytes; not set: none */ key?: string;
    /** whose task it is */ lambda: string;
    /** whose task it is, such as a customer, for the lambda's limits by key; at most 256 bytes; not set: nobody's */ limitKey?: string;
    /** so many failures, and the task is dead; not set: the lambda's */ maxAttempts?: number;
    /** if a task holds the key: keep it (default), replace its payload and time, or reject this one; for replace a task that has ended holds none */ onConflict?: "keep" | "replace" | "reject";
    /** what the handler gets; not set: nothing */ payload?: unknown;
    /** one of the lambda's; not set: normal where the lambda has it, else its middle one */ priority?: string;
    /** A 16-byte UUIDv7 chosen by the client makes a repeated call harmless, also one with a key that is free again since. Empty: the server chooses. */ requestId?: string;
    /** the task ends as expired if it has not started by then; not set: as the lambda's start_within says */ startBefore?: Time;
    /** at most 16 */ tags?: Record<string, string>;
    /** The tasks that follow when the task has ended: with success, in any other way, and in any way. A follow-up has no request_id; on_conflict is keep or replace, for which a task that lives keeps the key; its delay counts from the end of the task before it. */ then?: Item[];
    /** how long one attempt may take; not set: the lambda's */ timeout?: string;
    /** W3C trace context of the caller, passed on with the task; not set: none */ traceparent?: string;
}
export interface Job {
    /** cancel, redrive, reschedule, expire or delete; backfill, which BackfillCron makes */ action?: string;
    /** without a filter */ all: boolean;
    /** of backfill */ backfill?: Backfill;
    /** of reschedule: added to each due time */ by?: string;
    /** of a dry run, for people: what it takes of the store */ cost?: string;
    /** when it was made */ created?: string;
    /** identity, with whose grants it acts */ createdBy?: string;
    /** of reschedule: one due time for all; not set: see by and spread */ due?: string;
    /** when it ended; not set: it has not ended */ ended?: string;
    /** rows */ examined: number;
    /** of redrive: also tasks that ended as success or delivered */ force: boolean;
    /** of a cancel of a group, which CancelGroup makes */ group?: string;
    /** of the job */ id: string;
    /** of a dry run: tasks that the filter selects; else those it has met so far */ matched: number;
    /** matched was counted, not estimated */ matchedExact: boolean;
    /** changed tasks by what became of them, refused ones by reason */ outcomes: Record<string, number>;
    /** tasks per second; 0: as fast as the store allows */ pace: number;
    /** why it failed, or waits */ problem?: string;
    /** of a dry run: at most ten */ sample: TaskInfo[];
    /** of reschedule: due times evenly over this long; not set: not spread */ spread?: string;
    /** counted (a dry run), running, paused, stopped, done or failed */ state: string;
    /** the filter expression; not set: it selects by all, backfill or group */ where?: string;
}
export interface LambdaInfo {
    /** the longest pause before a retry, at most 30 days; not set: 10m */ backoffMax?: string;
    /** the shortest pause before a retry, 1ms to 30 days; not set: 1s */ backoffMin?: string;
    /** not set: none */ breaker?: Breaker;
    /** when it was created */ created?: string;
    /** its live tasks are being dropped, and it takes no new ones */ deleting?: boolean;
    /** mode deliver: its queues are FIFO queues, which keep the order of each limit key and drop what is sent twice; cannot change */ fifo?: boolean;
    /** how long a key is held after success or delivered; not set: retention */ keyRetention?: string;
    /** how many tasks of one limit key run at once; not set: any number */ limitKeyConcurrency?: number;
    /** how many tasks of one limit key start per second; not set: any number */ limitKeyRate?: number;
    /** so many failures, and a task is dead; 1 to 1000; not set: 10 */ maxAttempts?: number;
    /** managed (default): workers run its tasks; deliver: each is put on an SQS queue when it is due, for consumers that need no Kinesin; cannot change */ mode?: "managed" | "deliver" | (string & {});
    /** of 1 to 64 letters, digits, _ and - */ name: string;
    /** attempts in a row that are lost with their worker before a task is dead; not set: 3 */ poisonBound?: number;
    /** 1 to 8 names, highest first; cannot change; not set: high, normal, low */ priorities?: string[];
    /** The share of starts that each priority has while tasks of several wait: a weight of 1 to 1000 for each priority of the lambda; 1 for one that is not named. Empty: strict, the highest first. */ priorityWeights?: Record<string, number>;
    /** a registration (by Terraform) defines it; read only */ registered?: boolean;
    /** why the registration of its name is refused; not set: it is accepted, or there is none; read only */ registrationRefused?: string;
    /** how long ended tasks are kept, 1 minute to 5 years; not set: 7 days */ retention?: string;
    /** how many retries may start for each first start, 0.01 to 10; not set: any number */ retryShare?: number;
    /** partitions of each priority, up to 1024, which can only grow; new ones are used from shards_from on; not set: 4 with DynamoDB, else 1 */ shards?: number;
    /** from when on new tasks use shards; not set: they never grew; read only */ shardsFrom?: string;
    /** a task that did not start so long after its due time ends as expired; not set: never */ startWithin?: string;
    /** What servers call for each task, in place of workers; not set: workers run the tasks. Not for mode deliver. */ target?: Target;
    /** of target_headers, in order */ targetHeaderNames?: string[];
    /** Headers of the calls of an http target, each name: value with the name in small letters; at most 16 of 4,096 bytes. They are not shown, and are for the host of the target: another host takes new ones. */ targetHeaders?: string[];
    /** how many target_secrets there are */ targetSecretCount?: number;
    /** Secrets that sign the calls of an http target as Standard Webhooks says, each whsec_ and the base64 of 24 to 64 bytes; two while one is rotated. They are not shown, and are for the host of the target, as its headers. */ targetSecrets?: string[];
    /** how long one attempt may take, 100ms to 30 days; not set: 15m */ timeout?: string;
    /** rises with each change */ version: number;
    /** its registration is gone: it is deleted when its tasks have ended; read only */ withdrawn?: boolean;
}
export interface LambdaSettings {
    /** the longest pause before a retry, at most 30 days; not set: 10m */ backoffMax?: string;
    /** the shortest pause before a retry, 1ms to 30 days; not set: 1s */ backoffMin?: string;
    /** not set: none */ breaker?: BreakerSettings;
    /** mode deliver: its queues are FIFO queues, which keep the order of each limit key and drop what is sent twice; cannot change */ fifo?: boolean;
    /** how long a key is held after success or delivered; not set: retention */ keyRetention?: string;
    /** how many tasks of one limit key run at once; not set: any number */ limitKeyConcurrency?: number;
    /** how many tasks of one limit key start per second; not set: any number */ limitKeyRate?: number;
    /** so many failures, and a task is dead; 1 to 1000; not set: 10 */ maxAttempts?: number;
    /** managed (default): workers run its tasks; deliver: each is put on an SQS queue when it is due, for consumers that need no Kinesin; cannot change */ mode?: "managed" | "deliver";
    /** of 1 to 64 letters, digits, _ and - */ name: string;
    /** attempts in a row that are lost with their worker before a task is dead; not set: 3 */ poisonBound?: number;
    /** 1 to 8 names, highest first; cannot change; not set: high, normal, low */ priorities?: string[];
    /** The share of starts that each priority has while tasks of several wait: a weight of 1 to 1000 for each priority of the lambda; 1 for one that is not named. Empty: strict, the highest first. */ priorityWeights?: Record<string, number>;
    /** how long ended tasks are kept, 1 minute to 5 years; not set: 7 days */ retention?: string;
    /** how many retries may start for each first start, 0.01 to 10; not set: any number */ retryShare?: number;
    /** partitions of each priority, up to 1024, which can only grow; new ones are used from shards_from on; not set: 4 with DynamoDB, else 1 */ shards?: number;
    /** a task that did not start so long after its due time ends as expired; not set: never */ startWithin?: string;
    /** What servers call for each task, in place of workers; not set: workers run the tasks. Not for mode deliver. */ target?: TargetSettings;
    /** Headers of the calls of an http target, each name: value with the name in small letters; at most 16 of 4,096 bytes. They are not shown, and are for the host of the target: another host takes new ones. */ targetHeaders?: string[];
    /** Secrets that sign the calls of an http target as Standard Webhooks says, each whsec_ and the base64 of 24 to 64 bytes; two while one is rotated. They are not shown, and are for the host of the target, as its headers. */ targetSecrets?: string[];
    /** how long one attempt may take, 100ms to 30 days; not set: 15m */ timeout?: string;
}
export interface Lease {
    /** of the results of the previous lease */ acks: ResultAck[];
    /** how often to send one */ heartbeat: string;
    /** how long the lease lasts without a heartbeat */ lease: string;
    /** lambdas that do not exist yet: their tasks are claimed as soon as they do */ missing: string[];
    /** proves, when the process gives the lease up, that it had it; not for logs */ proof: string;
    /** the lease's id */ worker: string;
}
export interface Link {
    /** not set: it is the first */ edge?: "then" | "else" | "finally" | (string & {});
    /** how many follow-ups the task itself names */ followups: number;
    /** the task before it; not set: it is the first */ parent?: string;
    /** the chain is paused */ paused: boolean;
    /** the id of the chain: its first task */ root?: string;
}
export interface Member {
    index: number; /** not set: it may not be read, or is not known any more */
    task?: TaskInfo;
}
export interface Occurrence {
    /** a backfill has scheduled it */ backfill: boolean;
    /** name of the cron */ cron?: string;
    /** the time at which the cron's expression fires */ nominal?: string;
    /** number of the cron's settings that were in charge */ revision: number;
    /** nominal time of the newest occurrence before it that succeeded; not set: none that is known */ succeeded?: string;
}
export interface Parent {
    /** as error */ attempts: Attempt[];
    /** how the follow-up follows it */ edge?: "then" | "else" | "finally" | (string & {});
    /** of its last attempt; only of a parent that did not succeed, or in finally */ error?: string;
    /** of the task before */ id?: string;
    /** its idempotency key; not set: none */ key?: string;
    /** whose task it is */ lambda?: string;
    /** of a success */ result?: unknown;
    /** in which it ended */ state?: "success" | "fatal_failure" | "dead" | "cancelled" | "dropped" | "delivered" | "expired" | (string & {});
}
export interface Problem {
    /** what was wrong, and what is allowed */ detail: string;
    /** the kind of problem, for programs */ reason?: "invalid" | "unknown_lambda" | "not_found" | "key_conflict" | "too_late" | "too_large" | "full" | "throttled" | "unavailable" | "lease_lost" | "fenced" | "exists" | "in_use" | "unsupported" | "internal" | "unauthenticated" | "registered" | "permission_denied" | "stale_seq" | (string & {});
    /** when to try again, as a duration such as 1s */ retryAfter?: string;
    /** the HTTP status */ status: number;
    /** the kind of problem, for people */ title: string;
    /** a name for this kind of problem: urn:kinesin:problem: and the reason, or about:blank */ type: string;
}
export interface RedriveOptions {
    force?: boolean; /** of a single task: only if it is at this seq; not set: at any */
    ifSeq?: number; /** of a single task: instead of the one it had */
    payload?: unknown; /** a 16-byte UUIDv7 chosen by the client: a late try of the call does not have its tasks start once more */
    requestId?: string;
}
export interface Result {
    /** what else follows the task */ add?: FollowupsSettings;
    /** names the attempt: the 16 bytes of its task */ claim: string;
    /** of a snooze */ delay?: string;
    /** of a failure, for people */ error?: string;
    /** how it ended */ outcome: "success" | "retriable_failure" | "fatal_failure" | "snoozed" | "released" | "cancelled";
    /** of a success: a value that is kept with the task; at most 32 KiB */ result?: unknown;
    /** on the worker's clock, corrected by the offset it learned; not set: never started */ started?: Time;
}
export interface ResultAck {
    attempt: number; /** names the attempt: the 16 bytes of its task */
    claim: string; /** FENCED: someone else owns the task now; UNAVAILABLE: send it again; INVALID: it is malformed */
    problem?: Problem;
}
export interface Scheduled {
    /** when the task is due */ due: string;
    /** a task has the key (or request id) already; id is its id */ duplicate: boolean;
    /** of the task, which is durable */ id: string;
    /** why the task was refused; not set: it was not */ problem?: Problem;
    /** the task that holds the key has the payload and time of this item now */ replaced: boolean;
    /** of the task that holds the key */ state?: "accepted" | "scheduled" | "enqueued" | "claimed" | "processing" | "retriable_failure" | "success" | "fatal_failure" | "dead" | "cancelled" | "dropped" | "acquired" | "delivered" | "expired" | (string & {});
}
export interface Target {
    async?: boolean; /** of an http target; default: POST */
    method?: "POST" | "PUT" | "PATCH" | "DELETE" | "GET" | (string & {}); /** how many calls each server makes at a time, up to 10,000; not set: 100 */
    slots?: number; /** An http or https URL, of at most 2,048 bytes, or the ARN of an AWS Lambda function. {key} and {tag.NAME} in a URL stand for those of the task. */
    url?: string;
}
export interface TargetSettings {
    async?: boolean; /** of an http target; default: POST */
    method?: "POST" | "PUT" | "PATCH" | "DELETE" | "GET"; /** how many calls each server makes at a time, up to 10,000; not set: 100 */
    slots?: number; /** An http or https URL, of at most 2,048 bytes, or the ARN of an AWS Lambda function. {key} and {tag.NAME} in a URL stand for those of the task. */
    url: string;
}
export interface TaskChanges {
    /** the longest pause between attempts; not set: that of the lambda */ backoffMax?: string | null;
    /** the shortest pause between attempts; set both or none; not set: that of the lambda */ backoffMin?: string | null;
    /** when to start, from now; instead of due */ delay?: string | null;
    /** When to start, as in RescheduleRequest. */ due?: Time | Time;
    /** only if the task is at this seq; not set: at any */ ifSeq?: number;
    /** so many failures, and the task is dead; not set: those of the lambda */ maxAttempts?: number | null;
    /** what the handler gets */ payload?: unknown;
    /** one of the lambda's; not set: the default one */ priority?: string | null;
    /** a task that did not start before then ends as expired; not set: as its lambda says */ startBefore?: Time | Time;
    /** of one attempt; not set: that of the lambda */ timeout?: string | null;
}
export interface TaskInfo {
    /** fencing number of the newest attempt */ attempt: number;
    /** the last ten, oldest first */ attempts: Attempt[];
    /** the longest pause between its attempts; not set: its lambda's */ backoffMax?: string;
    /** the shortest pause between its attempts; not set: its lambda's */ backoffMin?: string;
    /** it was cancelled while it ran */ cancelRequested: boolean;
    /** not set: it is in no chain */ chain?: Link;
    /** label for a subset of the lambda's tasks; not set: none */ collection?: string;
    /** when it was scheduled */ created: string;
    /** when it was to start, or is */ due: string;
    /** when it ended; a task without it has not ended */ ended?: string;
    /** when it was last put on the queue of its lambda; not set: it was not */ enqueued?: string;
    /** attempts that count against max_attempts */ failures: number;
    /** not set: it does not follow after a group */ group?: GroupEnd;
    /** public id */ id: string;
    /** idempotency key; not set: none */ key?: string;
    /** whose task it is */ lambda: string;
    /** whose task it is, for the lambda's limits by key */ limitKey?: string;
    /** so many failures, and it is dead; 0: not known, or its lambda is of mode deliver */ maxAttempts: number;
    /** not set: it is no member of a group */ member?: GroupMember;
    /** its next wake-up */ next?: string;
    /** not set: no cron has scheduled it */ occurrence?: Occurrence;
    /** only with GetRequest.with_payload */ payload?: unknown;
    /** size of its payload, also when that is not returned */ payloadBytes: number;
    /** one of the lambda's */ priority: string;
    /** of a success; empty without the right to read payloads */ result?: unknown;
    /** size of its result, also when that is not returned */ resultBytes: number;
    /** rises with each change; the ETag */ seq: number;
    /** not set: it may start at any time */ startBefore?: string;
    /** first start */ started?: string;
    /** where it is in its life */ state: "accepted" | "scheduled" | "enqueued" | "claimed" | "processing" | "retriable_failure" | "success" | "fatal_failure" | "dead" | "cancelled" | "dropped" | "acquired" | "delivered" | "expired" | (string & {});
    /** its worker was lost, and no attempt has ended since in a process that lived */ suspect: boolean;
    /** by name; at most 16 */ tags?: Record<string, string>;
    /** of one attempt; not set: its lambda's */ timeout?: string;
    /** W3C trace context of who scheduled it; not set: none */ traceparent?: string;
    /** why a task that is due has not started; not set: nothing that is known here */ waitsFor?: WaitsFor;
    /** who has it, or had it last; not set: nobody */ worker?: string;
    /** attempts whose worker was lost; not counted in failures */ workerLost: number;
}
export interface WaitsFor {
    gate?: string; /** gate, quota, key, retry budget, no worker or queue full */
    reason?: string; /** for people */
    text?: string; /** when it ends by itself; not set: not known */
    until?: string;
}
