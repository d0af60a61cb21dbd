package cli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/task"
)

// The functions below are the rows of the table of nouns: what there is to list, to get and to delete.

func (a *app) lambdas() *noun[*kinesinv1.Lambda] {
	return &noun[*kinesinv1.Lambda]{
		word: "lambda", arg: "NAME", none: "there are no lambdas; create one with `kinesin lambda create NAME`",
		print: (*app).printLambda,
		list: func(ctx context.Context, c *calls) (proto.Message, error) {
			return ask(ctx, c, "list lambdas", c.Lambdas.ListLambdas, &kinesinv1.ListLambdasRequest{})
		},
		titles: []string{"NAME", "MODE", "PRIORITIES", "SHARDS", "MAX ATTEMPTS", "TIMEOUT", "BACKOFF", "RETENTION"},
		wide:   []string{"KEY RETENTION", "POISON BOUND", "WEIGHTS", "LIMIT BY KEY", "CREATED", "REGISTERED"},
		cells: func(l *kinesinv1.Lambda) []string {
			attempts, timeout, backoff := strconv.Itoa(int(l.GetMaxAttempts())), spanText(l.GetTimeout()), backoffText(l)
			if isDeliver(l) { // it has none
				attempts, timeout, backoff = "", "", ""
			}
			return []string{
				l.GetName(), l.GetMode(), strings.Join(l.GetPriorities(), ","), strconv.Itoa(int(l.GetShards())), attempts, timeout, backoff,
				spanText(l.GetRetention()), spanText(cmp.Or(l.GetKeyRetention(), l.GetRetention())), countText(poisonBound(l)), weightsText(l),
				keyLimitText(l), instantText(l.GetCreated()), registeredText(l),
			}
		},
	}
}

func (a *app) quotas() *noun[*kinesinv1.Quota] {
	return &noun[*kinesinv1.Quota]{
		word: "quota", arg: "LAMBDA", none: "there are no quotas; set one with `kinesin quota set LAMBDA --rate N`",
		print:  func(a *app, q *kinesinv1.Quota) error { return a.printLine(quotaText(q)) },
		titles: []string{"LAMBDA", "PRIORITY", "IDENTITY", "RATE", "BURST", "CONCURRENCY", "ADMIT", "RECOVERY", "UPDATED", "BY"},
		wide:   []string{"FROM"},
		cells: func(q *kinesinv1.Quota) []string {
			return []string{
				q.GetLambda(), q.GetPriority(), q.GetIdentity(), rateText(q.GetRate()), countText(q.GetBurst()), countText(q.GetConcurrency()),
				rateText(q.GetAdmit()), rateText(float64(q.GetRecovery())), instantText(q.GetUpdated()), q.GetUpdatedBy(), sourceText(q),
			}
		},
	}
}

func (a *app) objectives() *noun[*kinesinv1.ObjectiveStatus] {
	return &noun[*kinesinv1.ObjectiveStatus]{
		word: "the objective of", arg: "LAMBDA", none: "there are no objectives; set one with `kinesin objective set LAMBDA --within 5s --objective 99`",
		about: func(s *kinesinv1.ObjectiveStatus) string { return promiseText(s.GetObjective()) },
		list: func(ctx context.Context, c *calls) (proto.Message, error) {
			return ask(ctx, c, "get objectives", c.Objectives.GetObjectives, &kinesinv1.GetObjectivesRequest{})
		},
		get: func(ctx context.Context, c *calls, lambda string) (*kinesinv1.ObjectiveStatus, error) {
			r, err := ask(ctx, c, "get objectives", c.Objectives.GetObjectives, &kinesinv1.GetObjectivesRequest{Lambda: lambda})
			if err == nil && len(r.GetObjectives()) == 0 {
				err = fmt.Errorf("lambda %s has no objective; kinesin objective set %s sets one", lambda, lambda)
			}
			if err != nil {
				return nil, err
			}
			return r.GetObjectives()[0], nil
		},
		delete: func(ctx context.Context, c *calls, lambda string) (proto.Message, error) {
			return ask(ctx, c, "delete objective", c.Objectives.DeleteObjective, &kinesinv1.DeleteObjectiveRequest{Lambda: lambda})
		},
		titles: []string{"LAMBDA", "OBJECTIVE", "WINDOW", "STARTED", "LATE NOW", "IN TIME", "BUDGET LEFT", "BURN", "FROM"},
		wide:   []string{"UPDATED", "BY"},
		cells: func(s *kinesinv1.ObjectiveStatus) []string {
			o := s.GetObjective()
			return []string{
				o.GetLambda(), promiseText(o), spanText(o.GetWindow()), strconv.FormatInt(s.GetStarted(), 10), strconv.FormatInt(s.GetWaiting(), 10),
				percentText(s.GetAttained()), percentText(100 * s.GetBudgetLeft()), burnText(s), sourceText(o), instantText(o.GetUpdated()), o.GetUpdatedBy(),
			}
		},
	}
}

func (a *app) stats() *noun[*kinesinv1.LambdaStats] {
	return &noun[*kinesinv1.LambdaStats]{
		titles: []string{"LAMBDA", "SCHEDULED", "QUEUED", "RUNNING", "OVERDUE", "STARTED/S", "ENDED/S", "FAILED/S", "DEAD 1H", "DEAD 1D", "P50", "P99", "HELD BACK BY"},
		wide:   []string{"THROTTLED/S"},
		cells: func(s *kinesinv1.LambdaStats) []string {
			count := func(states ...sdk.State) string { return numberText(tasksIn(s, states...), s.GetExact()) }
			rate := func(r float64) string { return fmt.Sprintf("%.1f", r) }
			overdue, late50, late99 := "", "", "" // of none there is no lateness, which is not a lateness of 0
			if s.GetStartedPerSecond() > 0 {
				late50, late99 = millisText(s.GetLatenessP50()), millisText(s.GetLatenessP99())
			}
			if s.GetOldestDue() != 0 {
				overdue = max(0, clock.Real().Now().Time().Sub(time.UnixMicro(s.GetOldestDue()))).Round(time.Second).String()
			}
			return []string{
				s.GetLambda(), count(scheduledStates...), count(queuedStates...),
				count(runningStates...), overdue, rate(s.GetStartedPerSecond()), rate(s.GetEndedPerSecond()), rate(s.GetFailedPerSecond()),
				strconv.FormatInt(s.GetDeadHour(), 10), strconv.FormatInt(s.GetDeadDay(), 10), late50, late99,
				heldByReasons(s.GetHeldBy()), rate(s.GetThrottledPerSecond()),
			}
		},
	}
}

func (a *app) crons() *noun[*kinesinv1.Cron] {
	return &noun[*kinesinv1.Cron]{
		word: "cron", arg: "NAME",
		about: (*kinesinv1.Cron).GetSchedule,
		print: (*app).printCron,
		text:  stateOfCron,
		list:  func(ctx context.Context, c *calls) (proto.Message, error) { return listCrons(ctx, c, "") },
		get: func(ctx context.Context, c *calls, name string) (*kinesinv1.Cron, error) {
			r, err := ask(ctx, c, "get cron", c.Crons.GetCron, &kinesinv1.GetCronRequest{Name: name})
			return r.GetCron(), err
		},
		delete: func(ctx context.Context, c *calls, name string) (proto.Message, error) {
			return ask(ctx, c, "delete cron", c.Crons.DeleteCron, &kinesinv1.DeleteCronRequest{Name: name})
		},
		titles: []string{"NAME", "LAMBDA", "SCHEDULE", "ZONE", "STATE", "NEXT"},
		wide:   []string{"OVERLAP", "CATCH-UP", "PRIORITY", "COLLECTION", "TAGS", "FROM"},
		cells: func(c *kinesinv1.Cron) []string {
			return []string{
				c.GetName(), c.GetLambda(), c.GetSchedule(), c.GetZone(), stateOfCron(c), firesText(c, 1),
				c.GetOverlap(), c.GetCatchUp(), c.GetPriority(), c.GetCollection(), tagsText(c.GetTags()), sourceText(c),
			}
		},
	}
}

func (a *app) occurrences() *noun[*kinesinv1.CronOccurrence] {
	return &noun[*kinesinv1.CronOccurrence]{
		titles: []string{"NOMINAL", "OUTCOME", "STATE", "LATE", "ID", "REASON"},
		cells: func(o *kinesinv1.CronOccurrence) []string {
			outcome, late := o.GetOutcome(), ""
			if o.GetBackfill() {
				outcome += " (backfill)"
			}
			if o.GetManual() {
				outcome += " (manual)"
			}
			if o.GetLate() > 0 {
				late = task.Micros(o.GetLate()).String()
			}
			return []string{instantText(o.GetNominal()), outcome, o.GetState(), late, o.GetId(), strings.TrimSpace(o.GetReason())}
		},
	}
}

func (a *app) gates() *noun[*kinesinv1.Gate] {
	return &noun[*kinesinv1.Gate]{
		word: "gate", arg: "ID",
		about: (*kinesinv1.Gate).GetReason,
		print: (*app).printGate,
		text:  (*kinesinv1.Gate).GetState,
		list: func(ctx context.Context, c *calls) (proto.Message, error) {
			return ask(ctx, c, "list gates", c.Gates.ListGates, &kinesinv1.ListGatesRequest{})
		}, // open ones
		get: func(ctx context.Context, c *calls, id string) (*kinesinv1.Gate, error) {
			r, err := askSet(ctx, c, "get gate", c.Gates.GetGate, &kinesinv1.GetGateRequest{Id: id})
			return r.GetGate(), err
		},
		titles: []string{"ID", "ACTION", "TASKS", "STATE", "CREATED", "UNTIL", "OWNER", "REASON"},
		wide:   []string{"ENDED", "ENDED BY"},
		cells: func(g *kinesinv1.Gate) []string {
			return []string{
				g.GetId(), g.GetAction(), gateTasksText(g), gateStateText(g), instantText(g.GetCreated()), instantText(g.GetUntil()), g.GetOwner(),
				g.GetReason(), instantText(g.GetEnded()), g.GetEndedBy(),
			}
		},
	}
}

func (a *app) jobs() *noun[*kinesinv1.Job] {
	return &noun[*kinesinv1.Job]{
		word: "job", arg: "ID",
		about: func(j *kinesinv1.Job) string { return j.GetAction() + ", " + j.GetState() },
		print: (*app).printJob,
		text:  (*kinesinv1.Job).GetState,
		list: func(ctx context.Context, c *calls) (proto.Message, error) {
			return ask(ctx, c, "list jobs", c.Jobs.ListJobs, &kinesinv1.ListJobsRequest{})
		},
		get: func(ctx context.Context, c *calls, id string) (*kinesinv1.Job, error) {
			r, err := ask(ctx, c, "get job", c.Jobs.GetJob, &kinesinv1.GetJobRequest{Id: id})
			return r.GetJob(), err
		},
		titles: []string{"ID", "ACTION", "STATE", "CREATED", "OUTCOMES", "FILTER"},
		wide:   []string{"ENDED", "BY", "TASKS"},
		cells: func(j *kinesinv1.Job) []string {
			return []string{
				j.GetId(), actionText(j), j.GetState(), instantText(j.GetCreated()), outcomesText(j.GetOutcomes()), cmp.Or(j.GetWhere(), rangeText(j)),
				instantText(j.GetEnded()), j.GetCreatedBy(), matchedText(j),
			}
		},
	}
}

func (a *app) groups() *noun[*kinesinv1.Group] {
	return &noun[*kinesinv1.Group]{
		word: "group", arg: "ID",
		print: (*app).printGroup,
		text:  func(g *kinesinv1.Group) string { return fmt.Sprintf("sealed with %d members", g.GetMembers()) },
		get: func(ctx context.Context, c *calls, id string) (*kinesinv1.Group, error) {
			r, err := ask(ctx, c, "get group", c.Groups.GetGroup, &kinesinv1.GetGroupRequest{Id: id})
			return r.GetGroup(), err
		},
		titles: []string{"ID"},
		cells:  func(g *kinesinv1.Group) []string { return []string{g.GetId()} },
	}
}

func (a *app) chains() *noun[*kinesinv1.GetChainResponse] {
	return &noun[*kinesinv1.GetChainResponse]{
		word: "chain", arg: "ID",
		print: (*app).printChain,
		get: func(ctx context.Context, c *calls, id string) (*kinesinv1.GetChainResponse, error) {
			return ask(ctx, c, "get chain", c.Chains.GetChain, &kinesinv1.GetChainRequest{Id: id})
		},
		titles: []string{"ID"},
		cells:  func(c *kinesinv1.GetChainResponse) []string { return []string{c.GetId()} },
	}
}

func (a *app) tokens() *noun[*kinesinv1.Token] {
	return &noun[*kinesinv1.Token]{
		word: "token", arg: "NAME", none: "there are no tokens; make one with `kinesin token create NAME --grant VERB:LAMBDA-PATTERN`",
		about: tokenState,
		text:  func(t *kinesinv1.Token) string { return outcomeRevoked + " token " + t.GetName() },
		list: func(ctx context.Context, c *calls) (proto.Message, error) {
			return ask(ctx, c, "list tokens", c.Access.ListTokens, &kinesinv1.ListTokensRequest{})
		},
		titles: []string{"NAME", "STATE", "GRANTS", "CREATED", "BY", "EXPIRES"},
		wide:   []string{"REVOKED"},
		cells: func(t *kinesinv1.Token) []string {
			return []string{
				t.GetName(), tokenState(t), strings.Join(t.GetGrants(), " "), instantText(t.GetCreated()), t.GetCreatedBy(), instantText(t.GetExpires()), instantText(t.GetRevoked()),
			}
		},
	}
}

func (a *app) senders() *noun[*kinesinv1.InboundSender] {
	return &noun[*kinesinv1.InboundSender]{
		word: "sender", arg: "NAME", none: "there are no senders; make one with `kinesin inbound key --sender NAME --lambda PATTERN`",
		about: func(s *kinesinv1.InboundSender) string { return strings.Join(s.GetLambdas(), ",") },
		text:  func(s *kinesinv1.InboundSender) string { return outcomeRevoked + " sender " + s.GetName() },
		list: func(ctx context.Context, c *calls) (proto.Message, error) {
			return ask(ctx, c, "list senders", c.Keyring.ListSenders, &kinesinv1.ListSendersRequest{})
		},
		titles: []string{"NAME", "LAMBDAS", "CREATED", "REVOKED"},
		cells: func(s *kinesinv1.InboundSender) []string {
			return []string{s.GetName(), strings.Join(s.GetLambdas(), ","), instantText(s.GetCreated()), instantText(s.GetRevoked())}
		},
	}
}

func (a *app) rejected() *noun[*kinesinv1.Rejected] {
	return &noun[*kinesinv1.Rejected]{
		word: "message", arg: "NAME", none: "nothing is set aside",
		about: (*kinesinv1.Rejected).GetReason,
		list: func(ctx context.Context, c *calls) (proto.Message, error) {
			return listRejected(ctx, c, listLimitDefault)
		},
		get: func(ctx context.Context, c *calls, name string) (*kinesinv1.Rejected, error) {
			r, err := ask(ctx, c, "get rejected", c.Inbound.GetRejected, &kinesinv1.GetRejectedRequest{Name: name})
			if item := r.GetRejected().GetItem(); item != nil {
				item.Payload, err = c.Decode(ctx, r.GetRejected().GetLambda(), item.GetKey(), r.GetRejected().GetId(), item.GetPayload())
			}
			return r.GetRejected(), err
		},
		titles: []string{"NAME", "REASON", "LAMBDA", "AT", "BYTES", "RETRIES", "TEXT"},
		wide:   []string{"ACCEPTED", "ID"},
		cells: func(r *kinesinv1.Rejected) []string {
			return []string{
				r.GetName(), r.GetReason(), r.GetLambda(), instantText(r.GetRejected()), strconv.FormatInt(r.GetBytes(), 10), strconv.Itoa(int(r.GetRetries())),
				r.GetText(), instantText(r.GetAccepted()), r.GetId(),
			}
		},
	}
}

func (a *app) ringKeys() *noun[*kinesinv1.KeyringKey] {
	return &noun[*kinesinv1.KeyringKey]{
		list: func(ctx context.Context, c *calls) (proto.Message, error) {
			return ask(ctx, c, "list keys", c.Keyring.ListKeys, &kinesinv1.ListKeysRequest{})
		},
		titles: []string{"NUMBER", "STATE", "CREATED", "SEALS FROM", "RETIRED AT", "MESSAGES UNTIL", "VERIFIES UNTIL"},
		cells: func(k *kinesinv1.KeyringKey) []string {
			return []string{
				strconv.Itoa(int(k.GetNumber())), k.GetState(), instantText(k.GetCreated()), instantText(k.GetSealsFrom()), instantText(k.GetRetired()),
				instantText(k.GetMessagesUntil()), instantText(k.GetVerifiesUntil()),
			}
		},
	}
}

func (a *app) deadLetters() *noun[*kinesinv1.DeadLetter] {
	return &noun[*kinesinv1.DeadLetter]{
		titles: []string{"ID", "PRIORITY", "DUE", "SENT", "RECEIVES", "BYTES", "PAYLOAD"},
		wide:   []string{"MESSAGE"},
		cells: func(l *kinesinv1.DeadLetter) []string {
			text, encoded := textOrBase64(l.GetPayload())
			return []string{
				l.GetId(), l.GetPriority(), instantText(l.GetDue()), instantText(l.GetSent()), strconv.Itoa(int(l.GetReceives())), strconv.Itoa(int(l.GetPayloadBytes())),
				quotedText(text) + encoded, l.GetMessageId(),
			}
		},
	}
}
