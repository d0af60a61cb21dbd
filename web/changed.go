package web

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/overview"
)

const (
	// changedFor is how long the first page tells of a change.
	changedFor = time.Hour
	// changedShown bounds the changes that the first page tells of, and failingShown the lambdas of which it says that
	// they fail.
	changedShown, failingShown = 6, 5
	// auditRecordsRead is how many audit records the first page looks through.
	auditRecordsRead = 200

	changesEvery        = 5 * time.Second
	changesEveryMetered = 5 * time.Minute
)

// notice is something to look at first, and where to look.
type notice struct {
	Text, To string
	At       int64 // when it happened or began, which the page shows behind the text; 0: not said
}

// failing is what failed of a lambda, as far as this process saw it.
type failing struct {
	Lambda    string
	Hour, Day uint64    // attempts
	Since     time.Time // when the failures of the last minutes began; zero: an hour ago or earlier, or nothing fails now
	Now       bool      // more than a tenth of the last attempts failed
}

// failing returns what failed of lambdas in the last day.
func (l *live) failing(stats []*kinesinv1.LambdaStats) (all []failing) {
	for _, s := range stats {
		f := failing{Lambda: s.GetLambda()}
		if f.Hour, f.Day = l.config.Source.Failed(f.Lambda); f.Day == 0 {
			continue
		}
		if s.GetFailedPerSecond() > 0 {
			f.Since, f.Now = failingSince(l.config.Source.Minutes(f.Lambda, minutesPlotted))
		}
		all = append(all, f)
	}
	slices.SortStableFunc(all, func(x, y failing) int { return cmp.Compare(y.Hour, x.Hour) })
	return all
}

// failingSince returns when the failures of the last minutes began; zero if they began before the first of these minutes.
// Up to quietMinutes without a failure do not end them. now reports whether a tenth of the attempts of the last
// quietMinutes failed.
func failingSince(minutes []overview.Minute) (since time.Time, now bool) {
	const quietMinutes, tenth = 5, 10
	var failed, ended uint64
	first := len(minutes) // of the minutes with failures
	for i, m := range slices.Backward(minutes) {
		if i >= len(minutes)-quietMinutes {
			failed, ended = failed+m.Failed, ended+m.Ended
		}
		if m.Failed > 0 {
			first = i
		} else if first-i > quietMinutes {
			break
		}
	}
	isOldest := first == 0 && len(minutes) >= minutesPlotted // failures before it are not known
	if first < len(minutes) && !isOldest {
		since = minutes[first].At
	}
	return since, failed > 0 && failed*tenth >= failed+ended
}

// gates returns the gates of all lambdas, also those that have ended; none while they cannot be read.
func (l *live) gates() []*kinesinv1.Gate {
	if l.config.Gates == nil {
		return nil
	}
	return l.gatesRead.Get(l.config.Clock, liveShare, func() ([]*kinesinv1.Gate, time.Duration) {
		ctx, cancel := l.asServer(liveWithin)
		defer cancel()
		response, err := l.config.Gates.ListGates(ctx, &kinesinv1.ListGatesRequest{Ended: true})
		l.note(ctx, "the gates", err)
		return explained(response.GetGates()), l.every(changesEvery, changesEveryMetered)
	})
}

// explained returns gates, newest first, with one gate in place of two where a second one gave the first its reason.
func explained(gates []*kinesinv1.Gate) (all []*kinesinv1.Gate) {
	for _, g := range gates {
		i := slices.IndexFunc(all, func(by *kinesinv1.Gate) bool { return explains(by, g) })
		if i < 0 {
			all = append(all, g)
			continue
		}
		all[i] = proto.CloneOf(all[i])
		all[i].Created, all[i].Owner = g.GetCreated(), g.GetOwner()
	}
	return all
}

// explains reports whether a gate was set to say why another one holds, and that one then ended.
func explains(by, g *kinesinv1.Gate) bool {
	held := func(g *kinesinv1.Gate) [5]string {
		return [5]string{g.GetAction(), g.GetLambda(), g.GetPriority(), g.GetCollection(), g.GetTag()}
	}
	return g.GetReason() == unsaid && g.GetEndedBy() == by.GetOwner() && held(g) == held(by) && g.GetCreated() <= by.GetCreated() && by.GetCreated() <= g.GetEnded()
}

// audit returns the audit records of the last hour, newest first, at most auditRecordsRead of them; none while they cannot be
// read.
func (l *live) audit() []*kinesinv1.AuditRecord {
	if l.config.Access == nil {
		return nil
	}
	return l.auditRead.Get(l.config.Clock, liveShare, func() ([]*kinesinv1.AuditRecord, time.Duration) {
		ctx, cancel := l.asServer(liveWithin)
		defer cancel()
		since := l.config.Clock.Now().Time().Add(-changedFor).UnixMicro()
		response, err := l.config.Access.ListAudit(ctx, &kinesinv1.ListAuditRequest{Since: since, Limit: auditRecordsRead, NewestFirst: true})
		l.note(ctx, "the audit log", err)
		return response.GetRecords(), l.every(changesEvery, changesEveryMetered)
	})
}

// auditTold says what a record of a change means to those who look for what has changed.
var auditTold = map[string]string{ //nolint:gochecknoglobals // a table
	"lambda.update": "The settings of %s changed", "lambda.delete": "%s was deleted", "quota.set": "The quota of %s changed",
	"objective.set": "The objective of %s changed", "objective.delete": "The objective of %s was deleted", "cron.set": "Cron %s changed",
	"cron.pause": "Cron %s was paused", "cron.resume": "Cron %s was resumed", "cron.delete": "Cron %s was deleted",
	"job.create": "A job began: %s", "keyring.rotate": "The ring of keys has a new key",
}

// changed says what somebody changed in the last hour, newest first, as far as the viewer may know it.
func (c *call) changed(snap *snapshot) (all []notice) {
	since := snap.at.Add(-changedFor).UnixMicro()
	for _, g := range c.live.gates() {
		if !c.caller.Grants.AllowIn(access.Read, g.GetLambda(), g.GetCollection()) {
			continue
		}
		to := lambdaPath(g.GetLambda())
		if g.GetCreated() >= since {
			all = append(all, notice{gateTold(g), to, g.GetCreated()})
		}
		if g.GetEnded() >= since {
			all = append(all, notice{g.GetLambda() + " was resumed" + byWhom(g.GetEndedBy()), to, g.GetEnded()})
		}
	}
	if c.seesAudit() {
		for _, r := range c.live.audit() {
			if told := auditTold[r.GetAction()]; told != "" && r.GetOutcome() == "ok" && r.GetAt() >= since {
				all = append(all, notice{strings.Replace(told, "%s", r.GetTarget(), 1) + byWhom(r.GetIdentity()), Prefix + "audit?since=1h", r.GetAt()})
			}
		}
	}
	slices.SortStableFunc(all, func(x, y notice) int { return cmp.Compare(y.At, x.At) })
	if more := len(all) - changedShown; more > 0 {
		all = append(all[:changedShown:changedShown], notice{numberOf(more, "earlier change", "earlier changes") + " in the last hour", either(c.seesAudit(), Prefix+"audit?since=1h", ""), 0})
	}
	return all
}

// gateTold says what a gate does, whose it is and why.
func gateTold(g *kinesinv1.Gate) string {
	of := g.GetLambda() + named("", ", priority ", g.GetPriority(), ", collection ", g.GetCollection(), ", tag ", g.GetTag())
	return either(g.GetAction() == "drop", "Due tasks of "+of+" are dropped", of+" was paused") + byWhom(g.GetOwner()) + ": " + short(g.GetReason())
}

// byWhom says who did something, unless nobody has to say who he is.
func byWhom(identity string) string {
	return either(identity == "" || identity == access.AnonymousName, "", " by "+identity)
}
