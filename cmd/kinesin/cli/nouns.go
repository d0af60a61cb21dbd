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
	"github.com/kinesin-io/kinesin/sdk/admin"
)

// The functions below are the rows of the table of nouns: what there is to list, to get and to delete.

func (a *app) lambdas() *noun[admin.Lambda] {
	return &noun[admin.Lambda]{
		word: "lambda", arg: "NAME", none: "there are no lambdas; create one with `kinesin lambda create NAME`",
		object: func(l *admin.Lambda) any { return lambdaObjectOf(l) },
		print:  (*app).printLambda,
		list: func(ctx context.Context, k *sdk.Client) ([]admin.Lambda, error) {
			return admin.New(k).Lambdas.List(ctx)
		},
		titles: []string{"NAME", "MODE", "PRIORITIES", "SHARDS", "MAX ATTEMPTS", "TIMEOUT", "BACKOFF", "RETENTION"},
		wide:   []string{"KEY RETENTION", "POISON BOUND", "WEIGHTS", "LIMIT BY KEY", "CREATED", "REGISTERED"},
		cells: func(l *admin.Lambda) []string {
			attempts, timeout, backoff := strconv.Itoa(l.MaxAttempts), formatDuration(l.Timeout), formatRange(l.BackoffMin, l.BackoffMax)
			if l.Mode == admin.ModeDeliver { // it has none
				attempts, timeout, backoff = "", "", ""
			}
			return []string{
				l.Name, string(l.Mode), strings.Join(l.Priorities, ","), strconv.Itoa(l.Shards), attempts, timeout, backoff, formatDuration(l.Retention),
				formatDuration(cmp.Or(l.KeyRetention, l.Retention)), countText(poisonBound(l)), weightsText(l), keyLimitText(l), timeText(l.Created), registeredText(l),
			}
		},
	}
}

func (a *app) quotas() *noun[admin.Quota] {
	return &noun[admin.Quota]{
		word: "quota", arg: "LAMBDA", none: "there are no quotas; set one with `kinesin quota set LAMBDA --rate N`",
		object: func(q *admin.Quota) any { return quotaObjectOf(q) },
		print:  func(a *app, q *admin.Quota) error { return a.printLine(quotaText(q)) },
		titles: []string{"LAMBDA", "PRIORITY", "IDENTITY", "RATE", "BURST", "CONCURRENCY", "ADMIT", "RECOVERY", "UPDATED", "BY"},
		wide:   []string{"FROM"},
		cells: func(q *admin.Quota) []string {
			return []string{
				q.Lambda, q.Priority, q.Identity, rateText(q.Rate), countText(q.Burst), countText(q.Concurrency), rateText(q.Admit),
				rateText(float64(q.Recovery)), timeText(q.Updated), q.UpdatedBy, sourceText(q.Registered, q.ManagedBy),
			}
		},
	}
}

func (a *app) objectives() *noun[admin.ObjectiveStatus] {
	return &noun[admin.ObjectiveStatus]{
		word: "the objective of", arg: "LAMBDA", none: "there are no objectives; set one with `kinesin objective set LAMBDA --within 5s --objective 99`",
		about:  func(s *admin.ObjectiveStatus) string { return promiseText(&s.Objective) },
		object: func(s *admin.ObjectiveStatus) any { return sloObjectOf(s) },
		list: func(ctx context.Context, k *sdk.Client) ([]admin.ObjectiveStatus, error) {
			return admin.New(k).Objectives.List(ctx, "")
		},
		get: func(ctx context.Context, k *sdk.Client, lambda string) (s admin.ObjectiveStatus, err error) {
			all, err := admin.New(k).Objectives.List(ctx, lambda)
			if err == nil && len(all) == 0 {
				err = fmt.Errorf("lambda %s has no objective; kinesin objective set %s sets one", lambda, lambda)
			}
			if err != nil {
				return s, err
			}
			return all[0], nil
		},
		delete: func(ctx context.Context, k *sdk.Client, lambda string) error {
			return admin.New(k).Objectives.Delete(ctx, lambda)
		},
		titles: []string{"LAMBDA", "OBJECTIVE", "WINDOW", "STARTED", "LATE NOW", "IN TIME", "BUDGET LEFT", "BURN", "FROM"},
		wide:   []string{"UPDATED", "BY"},
		cells: func(s *admin.ObjectiveStatus) []string {
			return []string{
				s.Lambda, promiseText(&s.Objective), formatDuration(s.Window), strconv.FormatInt(s.Started, 10), strconv.FormatInt(s.Waiting, 10),
				percentText(s.Attained), percentText(100 * s.BudgetLeft), burnText(s), sourceText(s.Registered, s.ManagedBy), timeText(s.Updated), s.UpdatedBy,
			}
		},
	}
}

func (a *app) stats() *noun[admin.LambdaStats] {
	return &noun[admin.LambdaStats]{
		object: func(s *admin.LambdaStats) any { return statsObjectOf(s) },
		titles: []string{"LAMBDA", "WAITING", "QUEUED", "RUNNING", "OVERDUE", "STARTED/S", "ENDED/S", "FAILED/S", "DEAD 1H", "DEAD 1D", "P50", "P99", "HELD BACK BY"},
		wide:   []string{"THROTTLED/S"},
		cells: func(s *admin.LambdaStats) []string {
			count := func(states ...sdk.State) string { return numberText(tasksIn(s, states...), s.Exact) }
			rate := func(r float64) string { return fmt.Sprintf("%.1f", r) }
			overdue := ""
			if !s.OldestDue.IsZero() {
				overdue = max(0, clock.Real().Now().Time().Sub(s.OldestDue)).Round(time.Second).String()
			}
			return []string{
				s.Lambda, count(sdk.StateScheduled, sdk.StateRetriableFailure), count(sdk.StateEnqueued, sdk.StateAcquired),
				count(sdk.StateClaimed, sdk.StateProcessing), overdue, rate(s.StartedPerSecond), rate(s.EndedPerSecond), rate(s.FailedPerSecond), strconv.FormatInt(s.DeadHour, 10),
				strconv.FormatInt(s.DeadDay, 10), latenessText(s.LatenessP50), latenessText(s.LatenessP99), heldByReasons(s.HeldBy), rate(s.ThrottledPerSecond),
			}
		},
	}
}

func (a *app) crons() *noun[admin.Cron] {
	return &noun[admin.Cron]{
		word: "cron", arg: "NAME",
		about:  func(c *admin.Cron) string { return c.Schedule },
		object: func(c *admin.Cron) any { return cronObjectOf(c) },
		print:  (*app).printCron,
		text:   stateOfCron,
		list: func(ctx context.Context, k *sdk.Client) ([]admin.Cron, error) {
			return admin.New(k).Crons.List(ctx, "")
		},
		get: func(ctx context.Context, k *sdk.Client, name string) (admin.Cron, error) {
			return admin.New(k).Crons.Get(ctx, name)
		},
		delete: func(ctx context.Context, k *sdk.Client, name string) error {
			return admin.New(k).Crons.Delete(ctx, name)
		},
		titles: []string{"NAME", "LAMBDA", "SCHEDULE", "ZONE", "STATE", "NEXT"},
		wide:   []string{"OVERLAP", "CATCH-UP", "PRIORITY", "COLLECTION", "TAGS", "FROM"},
		cells: func(c *admin.Cron) []string {
			return []string{
				c.Name, c.Lambda, c.Schedule, c.Zone, stateOfCron(c), firesText(c, 1),
				string(c.Overlap), string(c.CatchUp), c.Priority, c.Collection, tagsText(c.Tags), sourceText(c.Registered, c.ManagedBy),
			}
		},
	}
}

func (a *app) occurrences() *noun[admin.CronOccurrence] {
	return &noun[admin.CronOccurrence]{
		object: func(o *admin.CronOccurrence) any { return occurrenceObjectOf(o) },
		titles: []string{"NOMINAL", "OUTCOME", "STATE", "LATE", "ID", "REASON"},
		cells: func(o *admin.CronOccurrence) []string {
			outcome, late := o.Outcome, ""
			if o.Backfill {
				outcome += " (backfill)"
			}
			if o.Manual {
				outcome += " (manual)"
			}
			if o.Late > 0 {
				late = o.Late.String()
			}
			return []string{timeText(o.Nominal), string(outcome), string(o.State), late, string(o.ID), strings.TrimSpace(o.Reason)}
		},
	}
}

func (a *app) gates() *noun[admin.Gate] {
	return &noun[admin.Gate]{
		word: "gate", arg: "ID",
		about:  func(g *admin.Gate) string { return g.Reason },
		object: func(g *admin.Gate) any { return gateObjectOf(g, false) },
		whole:  func(g *admin.Gate) any { return gateObjectOf(g, g.State != gateEnded) },
		print:  (*app).printGate,
		text:   func(g *admin.Gate) string { return string(g.State) },
		list: func(ctx context.Context, k *sdk.Client) ([]admin.Gate, error) {
			return admin.New(k).Gates.List(ctx, "", admin.GateListOptions{})
		}, // open ones
		get: func(ctx context.Context, k *sdk.Client, id string) (admin.Gate, error) {
			return admin.New(k).Gates.Get(ctx, id)
		},
		titles: []string{"ID", "ACTION", "TASKS", "STATE", "CREATED", "UNTIL", "OWNER", "REASON"},
		wide:   []string{"ENDED", "ENDED BY"},
		cells: func(g *admin.Gate) []string {
			return []string{
				g.ID, string(g.Action), gateTasksText(g), gateStateText(g), timeText(g.Created), timeText(g.Until), g.Owner, g.Reason, timeText(g.Ended), g.EndedBy,
			}
		},
	}
}

func (a *app) jobs() *noun[admin.Job] {
	return &noun[admin.Job]{
		word: "job", arg: "ID",
		about:  func(j *admin.Job) string { return string(j.Action) + ", " + string(j.State) },
		object: func(j *admin.Job) any { return jobObjectOf(j) },
		print:  (*app).printJob,
		text:   func(j *admin.Job) string { return string(j.State) },
		list:   func(ctx context.Context, k *sdk.Client) ([]admin.Job, error) { return admin.New(k).Jobs.List(ctx) },
		get: func(ctx context.Context, k *sdk.Client, id string) (admin.Job, error) {
			return admin.New(k).Jobs.Get(ctx, id)
		},
		titles: []string{"ID", "ACTION", "STATE", "CREATED", "OUTCOMES", "FILTER"},
		wide:   []string{"ENDED", "BY", "TASKS"},
		cells: func(j *admin.Job) []string {
			return []string{
				j.ID, actionText(j), string(j.State), timeText(j.Created), outcomesText(j.Outcomes), cmp.Or(j.Where, rangeText(j)),
				timeText(j.Ended), j.CreatedBy, matchedText(j),
			}
		},
	}
}

func (a *app) groups() *noun[sdk.GroupInfo] {
	return &noun[sdk.GroupInfo]{
		word: "group", arg: "ID",
		object: func(g *sdk.GroupInfo) any { return groupObjectOf(g) },
		print:  (*app).printGroup,
		text:   func(g *sdk.GroupInfo) string { return fmt.Sprintf("sealed with %d members", g.Members) },
		get:    func(ctx context.Context, k *sdk.Client, id string) (sdk.GroupInfo, error) { return k.GetGroup(ctx, id) },
		titles: []string{"ID"},
		cells:  func(g *sdk.GroupInfo) []string { return []string{g.ID} },
	}
}

func (a *app) chains() *noun[sdk.ChainInfo] {
	return &noun[sdk.ChainInfo]{
		word: "chain", arg: "ID",
		object: func(c *sdk.ChainInfo) any { return chainObjectOf(c) },
		print:  (*app).printChain,
		get: func(ctx context.Context, k *sdk.Client, id string) (sdk.ChainInfo, error) {
			return k.GetChain(ctx, sdk.ID(id))
		},
		titles: []string{"ID"},
		cells:  func(c *sdk.ChainInfo) []string { return []string{string(c.ID)} },
	}
}

func (a *app) tokens() *noun[tokenObject] {
	return &noun[tokenObject]{
		word: "token", arg: "NAME", none: "there are no tokens; make one with `kinesin token create NAME --grant VERB:LAMBDA-PATTERN`",
		about:  func(o *tokenObject) string { return o.State },
		object: func(o *tokenObject) any { return o },
		text:   func(o *tokenObject) string { return outcomeRevoked + " token " + o.Name },
		list: func(ctx context.Context, _ *sdk.Client) (all []tokenObject, err error) {
			err = a.withAccess(func(access kinesinv1connect.AccessServiceClient) error {
				r, err := access.ListTokens(ctx, &kinesinv1.ListTokensRequest{})
				for _, t := range r.GetTokens() {
					all = append(all, tokenObjectOf(t))
				}
				return err
			})
			return all, err
		},
		titles: []string{"NAME", "STATE", "GRANTS", "CREATED", "BY", "EXPIRES"},
		wide:   []string{"REVOKED"},
		cells: func(o *tokenObject) []string {
			return []string{o.Name, o.State, strings.Join(o.Grants, " "), o.Created, o.CreatedBy, o.Expires, o.Revoked}
		},
	}
}

func (a *app) senders() *noun[admin.Sender] {
	return &noun[admin.Sender]{
		word: "sender", arg: "NAME", none: "there are no senders; make one with `kinesin inbound key --sender NAME --lambda PATTERN`",
		about:  func(s *admin.Sender) string { return strings.Join(s.Lambdas, ",") },
		object: func(s *admin.Sender) any { return senderObjectOf(s) },
		text:   func(s *admin.Sender) string { return outcomeRevoked + " sender " + s.Name },
		list: func(ctx context.Context, k *sdk.Client) ([]admin.Sender, error) {
			return admin.New(k).Senders.List(ctx)
		},
		titles: []string{"NAME", "LAMBDAS", "CREATED", "REVOKED"},
		cells: func(s *admin.Sender) []string {
			return []string{s.Name, strings.Join(s.Lambdas, ","), timeText(s.Created), timeText(s.Revoked)}
		},
	}
}

func (a *app) rejected() *noun[admin.RejectedMessage] {
	return &noun[admin.RejectedMessage]{
		word: "message", arg: "NAME", none: "nothing is set aside",
		about:  func(r *admin.RejectedMessage) string { return r.Reason },
		object: func(r *admin.RejectedMessage) any { return rejectedObjectOf(r) },
		list: func(ctx context.Context, k *sdk.Client) ([]admin.RejectedMessage, error) {
			all, _, err := readRejected(ctx, k, listLimitDefault)
			return all, err
		},
		get: func(ctx context.Context, k *sdk.Client, name string) (admin.RejectedMessage, error) {
			return admin.New(k).Rejected.Get(ctx, name)
		},
		titles: []string{"NAME", "REASON", "LAMBDA", "AT", "BYTES", "RETRIES", "TEXT"},
		wide:   []string{"ACCEPTED", "ID"},
		cells: func(r *admin.RejectedMessage) []string {
			return []string{
				r.Name, r.Reason, r.Lambda, timeText(r.Rejected), strconv.FormatInt(r.Bytes, 10), strconv.Itoa(r.Retries), r.Text, timeText(r.Accepted), string(r.ID),
			}
		},
	}
}

func (a *app) ringKeys() *noun[admin.RingKey] {
	return &noun[admin.RingKey]{
		object: func(k *admin.RingKey) any { return ringKeyObjectOf(k) },
		list:   func(ctx context.Context, k *sdk.Client) ([]admin.RingKey, error) { return admin.New(k).Keys.List(ctx) },
		titles: []string{"NUMBER", "STATE", "CREATED", "SEALS FROM", "RETIRED AT", "MESSAGES UNTIL", "VERIFIES UNTIL"},
		cells: func(k *admin.RingKey) []string {
			return []string{
				strconv.Itoa(k.Number), string(k.State), timeText(k.Created), timeText(k.SealsFrom), timeText(k.Retired), timeText(k.MessagesUntil), timeText(k.VerifiesUntil),
			}
		},
	}
}

func (a *app) deadLetters() *noun[admin.DeadLetter] {
	return &noun[admin.DeadLetter]{
		object: func(l *admin.DeadLetter) any { return deadLetterObjectOf(l) },
		titles: []string{"ID", "PRIORITY", "DUE", "SENT", "RECEIVES", "BYTES", "PAYLOAD"},
		wide:   []string{"MESSAGE"},
		cells: func(l *admin.DeadLetter) []string {
			text, encoded := textOrBase64(l.Payload)
			return []string{
				string(l.ID), l.Priority, timeText(l.Due), timeText(l.Sent), strconv.Itoa(l.Receives), strconv.Itoa(l.PayloadBytes), quotedText(text) + encoded, l.MessageID,
			}
		},
	}
}
