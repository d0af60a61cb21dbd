package cli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/slo"
)

// The rows below are the table of nouns: what there is to list, to get and to delete.

func (a *app) lambdas() *noun[sdk.LambdaInfo] {
	managed := func(text func(l *sdk.LambdaInfo) string) func(l *sdk.LambdaInfo) string {
		return func(l *sdk.LambdaInfo) string {
			if l.Mode == sdk.ModeDeliver { // it has no such setting
				return ""
			}
			return text(l)
		}
	}
	return &noun[sdk.LambdaInfo]{
		word: "lambda", arg: "NAME", none: "there are no lambdas; create one with `kinesin lambda create NAME`",
		name:   func(l *sdk.LambdaInfo) string { return l.Name },
		object: func(l *sdk.LambdaInfo) any { return lambdaObjectOf(l) },
		print:  (*app).printLambda,
		list:   func(ctx context.Context, k *sdk.Client) ([]sdk.LambdaInfo, error) { return k.ListLambdas(ctx) },
		columns: []column[sdk.LambdaInfo]{
			col("NAME", func(l *sdk.LambdaInfo) string { return l.Name }),
			col("MODE", func(l *sdk.LambdaInfo) string { return l.Mode }),
			col("PRIORITIES", func(l *sdk.LambdaInfo) string { return strings.Join(l.Priorities, ",") }),
			col("SHARDS", func(l *sdk.LambdaInfo) string { return strconv.Itoa(l.Shards) }),
			col("MAX ATTEMPTS", managed(func(l *sdk.LambdaInfo) string { return strconv.Itoa(l.MaxAttempts) })),
			col("TIMEOUT", managed(func(l *sdk.LambdaInfo) string { return formatDuration(l.Timeout) })),
			col("BACKOFF", managed(func(l *sdk.LambdaInfo) string { return formatRange(l.BackoffMin, l.BackoffMax) })),
			col("RETENTION", func(l *sdk.LambdaInfo) string { return formatDuration(l.Retention) }),
			wide("KEY RETENTION", func(l *sdk.LambdaInfo) string { return formatDuration(cmp.Or(l.KeyRetention, l.Retention)) }),
			wide("POISON BOUND", func(l *sdk.LambdaInfo) string { return countText(poisonBound(l)) }),
			wide("WEIGHTS", weightsText), wide("LIMIT BY KEY", keyLimitText),
			wide("CREATED", func(l *sdk.LambdaInfo) string { return timeText(l.Created) }),
			wide("REGISTERED", registeredText),
		},
	}
}

func (a *app) quotas() *noun[sdk.Quota] {
	return &noun[sdk.Quota]{
		word: "quota", arg: "LAMBDA", none: "there are no quotas; set one with `kinesin quota set LAMBDA --rate N`",
		name:   func(q *sdk.Quota) string { return q.Lambda },
		object: func(q *sdk.Quota) any { return quotaObjectOf(q) },
		print:  func(a *app, q *sdk.Quota) error { return a.printLine(quotaText(q)) },
		columns: []column[sdk.Quota]{
			col("LAMBDA", func(q *sdk.Quota) string { return q.Lambda }),
			col("PRIORITY", func(q *sdk.Quota) string { return q.Priority }),
			col("IDENTITY", func(q *sdk.Quota) string { return q.Identity }),
			col("RATE", func(q *sdk.Quota) string { return rateText(q.Rate) }),
			col("BURST", func(q *sdk.Quota) string { return countText(q.Burst) }),
			col("CONCURRENCY", func(q *sdk.Quota) string { return countText(q.Concurrency) }),
			col("ADMIT", func(q *sdk.Quota) string { return rateText(q.Admit) }),
			col("RECOVERY", func(q *sdk.Quota) string { return rateText(float64(q.Recovery)) }),
			col("UPDATED", func(q *sdk.Quota) string { return timeText(q.Updated) }),
			col("BY", func(q *sdk.Quota) string { return q.UpdatedBy }),
			wide("FROM", func(q *sdk.Quota) string { return sourceText(q.Registered, q.ManagedBy) }),
		},
	}
}

func (a *app) objectives() *noun[slo.Status] {
	return &noun[slo.Status]{
		word: "the objective of", arg: "LAMBDA", none: "there are no objectives; set one with `kinesin objective set LAMBDA --within 5s --objective 99`",
		name:   func(s *slo.Status) string { return s.Lambda },
		about:  func(s *slo.Status) string { return promiseText(&s.Objective) },
		object: func(s *slo.Status) any { return sloObjectOf(s) },
		print:  (*app).printObjective,
		list:   func(ctx context.Context, k *sdk.Client) ([]slo.Status, error) { return k.Objectives(ctx, "") },
		get: func(ctx context.Context, k *sdk.Client, lambda string) (slo.Status, error) {
			all, err := k.Objectives(ctx, lambda)
			if err == nil && len(all) == 0 {
				err = fmt.Errorf("lambda %s has no objective; kinesin objective set %s sets one", lambda, lambda)
			}
			if err != nil {
				return slo.Status{}, err
			}
			return all[0], nil
		},
		delete: func(ctx context.Context, k *sdk.Client, lambda string) error { return k.DeleteObjective(ctx, lambda) },
		columns: []column[slo.Status]{
			col("LAMBDA", func(s *slo.Status) string { return s.Lambda }),
			col("OBJECTIVE", func(s *slo.Status) string { return promiseText(&s.Objective) }),
			col("WINDOW", func(s *slo.Status) string { return formatDuration(s.Window) }),
			col("STARTED", func(s *slo.Status) string { return number64(s.Started) }),
			col("LATE NOW", func(s *slo.Status) string { return number64(s.Waiting) }),
			col("IN TIME", func(s *slo.Status) string { return percentText(s.Attained) }),
			col("BUDGET LEFT", func(s *slo.Status) string { return percentText(100 * s.BudgetLeft) }),
			col("BURN", burnText),
			col("FROM", func(s *slo.Status) string { return sourceText(s.Registered, s.ManagedBy) }),
			wide("UPDATED", func(s *slo.Status) string { return timeText(s.Updated) }),
			wide("BY", func(s *slo.Status) string { return s.UpdatedBy }),
		},
	}
}

func (a *app) stats() *noun[sdk.LambdaStats] {
	count := func(states ...sdk.State) func(s *sdk.LambdaStats) string {
		return func(s *sdk.LambdaStats) string { return numberText(tasksIn(s, states...), s.Exact) }
	}
	rate := func(of func(s *sdk.LambdaStats) float64) func(s *sdk.LambdaStats) string {
		return func(s *sdk.LambdaStats) string { return fmt.Sprintf("%.1f", of(s)) }
	}
	return &noun[sdk.LambdaStats]{
		name:   func(s *sdk.LambdaStats) string { return s.Lambda },
		object: func(s *sdk.LambdaStats) any { return statsObjectOf(s) },
		columns: []column[sdk.LambdaStats]{
			col("LAMBDA", func(s *sdk.LambdaStats) string { return s.Lambda }),
			col("WAITING", count(sdk.StateScheduled, sdk.StateRetriableFailure)),
			col("QUEUED", count(sdk.StateEnqueued, sdk.StateAcquired)),
			col("RUNNING", count(sdk.StateClaimed, sdk.StateProcessing)),
			col("OVERDUE", func(s *sdk.LambdaStats) string {
				if s.OldestDue.IsZero() {
					return ""
				}
				return max(0, clock.Real().Now().Time().Sub(s.OldestDue)).Round(time.Second).String()
			}),
			col("STARTED/S", rate(func(s *sdk.LambdaStats) float64 { return s.Started })),
			col("ENDED/S", rate(func(s *sdk.LambdaStats) float64 { return s.Ended })),
			col("FAILED/S", rate(func(s *sdk.LambdaStats) float64 { return s.Failed })),
			wide("THROTTLED/S", rate(func(s *sdk.LambdaStats) float64 { return s.Throttled })),
			col("DEAD 1H", func(s *sdk.LambdaStats) string { return number64(s.DeadHour) }),
			col("DEAD 1D", func(s *sdk.LambdaStats) string { return number64(s.DeadDay) }),
			col("P50", func(s *sdk.LambdaStats) string { return latenessText(s.Lateness50) }),
			col("P99", func(s *sdk.LambdaStats) string { return latenessText(s.Lateness99) }),
			col("HELD BACK BY", func(s *sdk.LambdaStats) string { return heldByReasons(s.HeldBy) }),
		},
	}
}

func (a *app) crons() *noun[sdk.Cron] {
	return &noun[sdk.Cron]{
		word: "cron", arg: "NAME",
		name:   func(c *sdk.Cron) string { return c.Name },
		about:  func(c *sdk.Cron) string { return c.Schedule },
		object: func(c *sdk.Cron) any { return cronObjectOf(c) },
		print:  (*app).printCron,
		text:   stateOfCron,
		list:   func(ctx context.Context, k *sdk.Client) ([]sdk.Cron, error) { return k.Crons(ctx, "") },
		get:    func(ctx context.Context, k *sdk.Client, name string) (sdk.Cron, error) { return k.Cron(ctx, name) },
		delete: func(ctx context.Context, k *sdk.Client, name string) error { return k.DeleteCron(ctx, name) },
		columns: []column[sdk.Cron]{
			col("NAME", func(c *sdk.Cron) string { return c.Name }),
			col("LAMBDA", func(c *sdk.Cron) string { return c.Lambda }),
			col("SCHEDULE", func(c *sdk.Cron) string { return c.Schedule }),
			col("ZONE", func(c *sdk.Cron) string { return c.Zone }),
			col("STATE", stateOfCron),
			col("NEXT", func(c *sdk.Cron) string { return firesText(c, 1) }),
			wide("OVERLAP", func(c *sdk.Cron) string { return c.Overlap }),
			wide("CATCH-UP", func(c *sdk.Cron) string { return c.CatchUp }),
			wide("PRIORITY", func(c *sdk.Cron) string { return c.Priority }),
			wide("COLLECTION", func(c *sdk.Cron) string { return c.Collection }),
			wide("TAGS", func(c *sdk.Cron) string { return tagsText(c.Tags) }),
			wide("FROM", func(c *sdk.Cron) string { return sourceText(c.Registered, c.ManagedBy) }),
		},
	}
}

func (a *app) occurrences() *noun[sdk.CronOccurrence] {
	return &noun[sdk.CronOccurrence]{
		name:   func(o *sdk.CronOccurrence) string { return timeText(o.Nominal) },
		object: func(o *sdk.CronOccurrence) any { return occurrenceObjectOf(o) },
		columns: []column[sdk.CronOccurrence]{
			col("NOMINAL", func(o *sdk.CronOccurrence) string { return timeText(o.Nominal) }),
			col("OUTCOME", func(o *sdk.CronOccurrence) string {
				text := o.Outcome
				if o.Backfill {
					text += " (backfill)"
				}
				if o.Manual {
					text += " (manual)"
				}
				return text
			}),
			col("STATE", func(o *sdk.CronOccurrence) string { return string(o.State) }),
			col("LATE", func(o *sdk.CronOccurrence) string {
				if o.Late <= 0 {
					return ""
				}
				return o.Late.String()
			}),
			col("ID", func(o *sdk.CronOccurrence) string { return string(o.ID) }),
			col("REASON", func(o *sdk.CronOccurrence) string { return strings.TrimSpace(o.Reason) }),
		},
	}
}

func (a *app) gates() *noun[sdk.Gate] {
	return &noun[sdk.Gate]{
		word: "gate", arg: "ID",
		name:   func(g *sdk.Gate) string { return g.ID },
		about:  func(g *sdk.Gate) string { return g.Reason },
		object: func(g *sdk.Gate) any { return gateObjectOf(g, false) },
		whole:  func(g *sdk.Gate) any { return gateObjectOf(g, g.State != gateEnded) },
		print:  (*app).printGate,
		text:   func(g *sdk.Gate) string { return g.State },
		list:   func(ctx context.Context, k *sdk.Client) ([]sdk.Gate, error) { return k.Gates(ctx, "", false) }, // open ones
		get:    func(ctx context.Context, k *sdk.Client, id string) (sdk.Gate, error) { return k.GetGate(ctx, id) },
		columns: []column[sdk.Gate]{
			col("ID", func(g *sdk.Gate) string { return g.ID }),
			col("ACTION", func(g *sdk.Gate) string { return string(g.Action) }),
			col("TASKS", gateTasksText), col("STATE", gateStateText),
			col("CREATED", func(g *sdk.Gate) string { return timeText(g.Created) }),
			col("UNTIL", func(g *sdk.Gate) string { return timeText(g.Until) }),
			wide("ENDED", func(g *sdk.Gate) string { return timeText(g.Ended) }),
			wide("ENDED BY", func(g *sdk.Gate) string { return g.EndedBy }),
			col("OWNER", func(g *sdk.Gate) string { return g.Owner }),
			col("REASON", func(g *sdk.Gate) string { return g.Reason }),
		},
	}
}

func (a *app) jobs() *noun[sdk.Job] {
	return &noun[sdk.Job]{
		word: "job", arg: "ID",
		name:   func(j *sdk.Job) string { return j.ID },
		about:  func(j *sdk.Job) string { return string(j.Action) + ", " + string(j.State) },
		object: func(j *sdk.Job) any { return jobObjectOf(j) },
		print:  (*app).printJob,
		text:   func(j *sdk.Job) string { return string(j.State) },
		list:   func(ctx context.Context, k *sdk.Client) ([]sdk.Job, error) { return k.Jobs(ctx) },
		get:    func(ctx context.Context, k *sdk.Client, id string) (sdk.Job, error) { return k.GetJob(ctx, id) },
		columns: []column[sdk.Job]{
			col("ID", func(j *sdk.Job) string { return j.ID }),
			col("ACTION", actionText),
			col("STATE", func(j *sdk.Job) string { return string(j.State) }),
			col("CREATED", func(j *sdk.Job) string { return timeText(j.Created) }),
			wide("ENDED", func(j *sdk.Job) string { return timeText(j.Ended) }),
			wide("BY", func(j *sdk.Job) string { return j.CreatedBy }),
			wide("TASKS", matchedText),
			col("OUTCOMES", func(j *sdk.Job) string { return outcomesText(j.Outcomes) }),
			col("FILTER", func(j *sdk.Job) string { return cmp.Or(j.Where, rangeText(j)) }),
		},
	}
}

func (a *app) groups() *noun[sdk.GroupInfo] {
	return &noun[sdk.GroupInfo]{
		word: "group", arg: "ID",
		name:   func(g *sdk.GroupInfo) string { return g.ID },
		object: func(g *sdk.GroupInfo) any { return groupObjectOf(g) },
		print:  (*app).printGroup,
		text:   func(g *sdk.GroupInfo) string { return fmt.Sprintf("sealed with %d members", g.Members) },
		get:    func(ctx context.Context, k *sdk.Client, id string) (sdk.GroupInfo, error) { return k.GetGroup(ctx, id) },
	}
}

func (a *app) chains() *noun[sdk.ChainInfo] {
	return &noun[sdk.ChainInfo]{
		word: "chain", arg: "ID",
		name:   func(c *sdk.ChainInfo) string { return string(c.ID) },
		object: func(c *sdk.ChainInfo) any { return chainObjectOf(c) },
		print:  (*app).printChain,
		get: func(ctx context.Context, k *sdk.Client, id string) (sdk.ChainInfo, error) {
			return k.GetChain(ctx, sdk.ID(id))
		},
	}
}

func (a *app) tokens() *noun[tokenObject] {
	return &noun[tokenObject]{
		word: "token", arg: "NAME", none: "there are no tokens; make one with `kinesin token create NAME --grant VERB:LAMBDA-PATTERN`",
		name:   func(o *tokenObject) string { return o.Name },
		about:  func(o *tokenObject) string { return o.State },
		object: func(o *tokenObject) any { return o },
		text:   func(o *tokenObject) string { return outcomeRevoked + " token " + o.Name },
		list: func(ctx context.Context, _ *sdk.Client) (all []tokenObject, err error) {
			return all, a.withAccess(func(access kinesinv1connect.AccessServiceClient) error {
				r, err := access.ListTokens(ctx, &kinesinv1.ListTokensRequest{})
				for _, t := range r.GetTokens() {
					all = append(all, tokenObjectOf(t))
				}
				return err
			})
		},
		columns: []column[tokenObject]{
			col("NAME", func(o *tokenObject) string { return o.Name }),
			col("STATE", func(o *tokenObject) string { return o.State }),
			col("GRANTS", func(o *tokenObject) string { return strings.Join(o.Grants, " ") }),
			col("CREATED", func(o *tokenObject) string { return o.Created }),
			col("BY", func(o *tokenObject) string { return o.CreatedBy }),
			col("EXPIRES", func(o *tokenObject) string { return o.Expires }),
			wide("REVOKED", func(o *tokenObject) string { return o.Revoked }),
		},
	}
}

func (a *app) senders() *noun[sdk.InboundSender] {
	return &noun[sdk.InboundSender]{
		word: "sender", arg: "NAME", none: "there are no senders; make one with `kinesin inbound key --sender NAME --lambda PATTERN`",
		name:   func(s *sdk.InboundSender) string { return s.Name },
		about:  func(s *sdk.InboundSender) string { return strings.Join(s.Lambdas, ",") },
		object: func(s *sdk.InboundSender) any { return senderObjectOf(s) },
		text:   func(s *sdk.InboundSender) string { return outcomeRevoked + " sender " + s.Name },
		list:   func(ctx context.Context, k *sdk.Client) ([]sdk.InboundSender, error) { return k.InboundSenders(ctx) },
		columns: []column[sdk.InboundSender]{
			col("NAME", func(s *sdk.InboundSender) string { return s.Name }),
			col("LAMBDAS", func(s *sdk.InboundSender) string { return strings.Join(s.Lambdas, ",") }),
			col("CREATED", func(s *sdk.InboundSender) string { return timeText(s.Created) }),
			col("REVOKED", func(s *sdk.InboundSender) string { return timeText(s.Revoked) }),
		},
	}
}

func (a *app) rejected() *noun[sdk.Rejected] {
	return &noun[sdk.Rejected]{
		word: "message", arg: "NAME", none: "nothing is set aside",
		name:   func(r *sdk.Rejected) string { return r.Name },
		about:  func(r *sdk.Rejected) string { return r.Reason },
		object: func(r *sdk.Rejected) any { return rejectedObjectOf(r) },
		list: func(ctx context.Context, k *sdk.Client) ([]sdk.Rejected, error) {
			all, _, err := readRejected(ctx, k, listLimitDefault)
			return all, err
		},
		get: func(ctx context.Context, k *sdk.Client, name string) (sdk.Rejected, error) {
			return k.GetRejected(ctx, name)
		},
		columns: []column[sdk.Rejected]{
			col("NAME", func(r *sdk.Rejected) string { return r.Name }),
			col("REASON", func(r *sdk.Rejected) string { return r.Reason }),
			col("LAMBDA", func(r *sdk.Rejected) string { return r.Lambda }),
			col("AT", func(r *sdk.Rejected) string { return timeText(r.At) }),
			wide("ACCEPTED", func(r *sdk.Rejected) string { return timeText(r.Accepted) }),
			col("BYTES", func(r *sdk.Rejected) string { return number64(r.Bytes) }),
			col("RETRIES", func(r *sdk.Rejected) string { return strconv.Itoa(r.Retries) }),
			wide("ID", func(r *sdk.Rejected) string { return string(r.ID) }),
			col("TEXT", func(r *sdk.Rejected) string { return r.Text }),
		},
	}
}

func (a *app) ringKeys() *noun[sdk.RingKey] {
	return &noun[sdk.RingKey]{
		name:   func(k *sdk.RingKey) string { return strconv.Itoa(k.Number) },
		object: func(k *sdk.RingKey) any { return ringKeyObjectOf(k) },
		list:   func(ctx context.Context, k *sdk.Client) ([]sdk.RingKey, error) { return k.RingKeys(ctx) },
		columns: []column[sdk.RingKey]{
			col("NUMBER", func(k *sdk.RingKey) string { return strconv.Itoa(k.Number) }),
			col("STATE", func(k *sdk.RingKey) string { return k.State }),
			col("CREATED", func(k *sdk.RingKey) string { return timeText(k.Created) }),
			col("SEALS FROM", func(k *sdk.RingKey) string { return timeText(k.SealsFrom) }),
			col("RETIRED AT", func(k *sdk.RingKey) string { return timeText(k.RetiredAt) }),
			col("MESSAGES UNTIL", func(k *sdk.RingKey) string { return timeText(k.MessagesUntil) }),
			col("VERIFIES UNTIL", func(k *sdk.RingKey) string { return timeText(k.VerifiesUntil) }),
		},
	}
}
