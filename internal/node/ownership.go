package node

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kinesin-io/kinesin/api/jsonform"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/catalog/lambdas"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/feature/audit"
	"github.com/kinesin-io/kinesin/partition"
	"github.com/kinesin-io/kinesin/partition/fleet"
	"github.com/kinesin-io/kinesin/scheduler"
)

const (
	// unownedAfter is how long a member may fail to show that it handles its partitions until they count as
	// unowned.
	unownedAfter = 10 * time.Second
	// checkOwnersEvery is how often that is checked.
	checkOwnersEvery = 2 * time.Second
)

// watchOwners counts the unowned partitions until ctx ends.
func (n *Node) watchOwners(ctx context.Context) error {
	s := lateOwners{since: map[string]time.Duration{}}
	for {
		share, now := n.scheduler.Assignment(), clock.Mono(n.clock)
		unowned := s.unowned(&share, n.members.follows(&share), now)
		if n.NotReady() != "" {
			unowned = 0 // the others do not count this process, and so have other views
		}
		n.metrics.unowned.Set(float64(unowned))
		if clock.Sleep(ctx, n.clock, checkOwnersEvery) != nil {
			return nil //nolint:nilerr // the end of ctx is the way to stop
		}
	}
}

// lateOwners are the members that do not handle their partitions, and since when.
type lateOwners struct {
	since map[string]time.Duration
}

// unowned counts the partitions of members that have been late for too long, this process included.
func (s *lateOwners) unowned(share *scheduler.Assignment, follows func(member string) bool, now time.Duration) (partitions int) {
	next := make(map[string]time.Duration, len(s.since))
	for _, member := range share.Members {
		if share.Load[member] == 0 || follows(member) {
			continue
		}
		since, was := s.since[member]
		if !was {
			since = now
		}
		next[member] = since
		if now-since >= unownedAfter {
			partitions += share.Load[member]
		}
	}
	s.since = next
	return partitions
}

// members is the membership of a process with the scheduler's role. If several processes use the store, their
// lease rows tell which of them are alive and which partitions they handle, whatever tells who the members
// are.
type members struct {
	partition.Membership

	rows    *fleet.Membership // nil: this process is alone
	watched Membership        // nil: there is nothing to run besides the rows
}

// process returns the name of this process in the rows that it acquires, which is unique per start if there
// are several processes.
func (m *members) process() string {
	if m.rows != nil {
		return m.rows.Self()
	}
	return m.Self()
}

// presence reports whether the process of that name is alive, or else gone for certain.
func (m *members) presence(process string) (here, gone bool) {
	if m.rows != nil {
		return m.rows.Presence(process)
	}
	here = slices.Contains(m.Members(), process)
	return here, !here // without rows the members never change
}

// handover returns nil for a process that is alone.
func (m *members) handover() scheduler.Handover {
	if m.rows == nil {
		return nil
	}
	return m.rows
}

// run keeps the membership up to date until ctx ends, and then deletes the row of this process.
func (m *members) run(ctx context.Context, group *errgroup.Group) {
	if m.rows != nil {
		group.Go(func() error { return m.rows.Run(ctx) })
	}
	if m.watched != nil {
		group.Go(func() error { return m.watched.Run(ctx) })
	}
}

// ready declares that this process has read all its partitions.
func (m *members) ready() {
	if m.rows != nil {
		m.rows.Declare(fleet.Ready)
	}
}

// leaving declares that this process is about to end.
func (m *members) leaving() {
	if m != nil && m.rows != nil {
		m.rows.Declare(fleet.Leaving)
	}
}

// follows returns whether a member is known to handle the partitions that it owns in a share.
func (m *members) follows(share *scheduler.Assignment) func(member string) bool {
	if m.rows == nil {
		return func(string) bool { return true }
	}
	silent := map[string]bool{} // of versions that do not declare it
	for _, p := range m.rows.Peers() {
		if p.Alive && p.Host == "" {
			silent[p.Process] = true
		}
	}
	return func(member string) bool {
		if member == m.Self() {
			return share.Warm > 0
		}
		return silent[member] || m.rows.Follows(member, share.Members)
	}
}

func (n *Node) newMembers(c *Config) *members {
	m := &members{Membership: c.Membership}
	if !c.shared {
		return m
	}
	host := cmp.Or(c.Name, nameDefault)
	if c.Membership != nil {
		host = c.Membership.Self() // by which the others look for it
	}
	m.rows = fleet.New(fleet.Config{
		Rows: n.store, Self: fleet.NewName(cmp.Or(c.Name, nameDefault), c.Clock.Uint64()), Host: host, Group: c.Group, Version: n.metrics.version(),
		Clock: c.Clock, Log: c.Log, Hooks: n.fleetHooks(),
	})
	m.rows.Declare(fleet.Joining)
	switch {
	case c.Over != nil:
		m.watched = c.Over(m.rows)
		m.Membership = m.watched
	case c.Membership == nil:
		m.Membership = m.rows
	}
	return m
}

// process returns the name of this process in the rows that it enqueues; empty without the scheduler's role.
func (n *Node) process() string {
	if n.members == nil {
		return ""
	}
	return n.members.process()
}

// farewell waits until the others have taken over from this process, for fleet.FarewellMax at most. It
// reports whether there are others and all of them have.
func (n *Node) farewell(ctx context.Context) (taken bool) {
	if n.members == nil || n.members.rows == nil || n.members.Changed() == nil {
		return false // nobody takes over from this process
	}
	began := clock.Mono(n.clock)
	if err := n.members.rows.Taken(ctx); err != nil {
		n.log.WarnContext(ctx, "leaving before all others have taken over; tasks due until then are late", slog.Any("error", err))
		return false
	}
	if !slices.ContainsFunc(n.members.rows.Peers(), func(p fleet.Peer) bool { return p.Alive }) {
		return false
	}
	n.log.InfoContext(ctx, "the others have taken over", slog.Duration("after", clock.Mono(n.clock)-began))
	return true
}

// register applies the registrations of lambdas until ctx ends.
func (n *Node) register(ctx context.Context) error {
	defer n.metrics.setRegistrations(nil) // from then on other processes apply them
	return n.lambdas.Register(ctx)
}

// registered counts and logs a change of a registration; lambda is empty for a change of all of them.
func (n *Node) registered(ctx context.Context, lambda, outcome string, err error) {
	n.metrics.registrations.WithLabelValues(outcome).Inc()
	facts := make([]any, 0, 3)
	if lambda != "" {
		facts = append(facts, slog.String("lambda", lambda))
	}
	facts = append(facts, slog.String("outcome", outcome))
	if err != nil {
		facts = append(facts, slog.Any("error", err))
	}
	n.noteRegistered(ctx, lambda, outcome)
	level, message := registrationLog(outcome, lambda)
	n.log.Log(ctx, level, message, facts...) //nolint:sloglint // one of registrationLog's constants
}

// noteRegistered records a change of a lambda that a registration made.
func (n *Node) noteRegistered(ctx context.Context, lambda, outcome string) {
	action := map[string]string{
		lambdas.RegistrationCreated: "lambda.create", lambdas.RegistrationChanged: "lambda.update", lambdas.RegistrationDeleted: "lambda.delete",
	}[outcome]
	if n.audit == nil || action == "" {
		return
	}
	r := audit.Record{Identity: access.ServerName, From: "registration", Action: action, Target: lambda, Outcome: audit.OK}
	if l, err := n.lambdas.GetLambda(ctx, &kinesinv1.GetLambdaRequest{Name: lambda}); err == nil {
		r.After = string(jsonform.AppendRecord(nil, l.GetLambda())) // as those of calls
	}
	n.audit.Note(ctx, r)
}

// registrationLog returns how a change of a registration is logged.
func registrationLog(outcome, lambda string) (slog.Level, string) {
	switch outcome {
	case lambdas.RegistrationCreated:
		return slog.LevelInfo, "lambda created as registered"
	case lambdas.RegistrationChanged:
		return slog.LevelInfo, "lambda changed as registered"
	case lambdas.RegistrationWaiting:
		return slog.LevelInfo, "registration waits"
	case lambdas.RegistrationDeleted:
		return slog.LevelInfo, "withdrawn lambda deleted"
	case lambdas.RegistrationKept:
		return slog.LevelWarn, "withdrawn lambda kept"
	case lambdas.RegistrationUnread:
		return slog.LevelWarn, "registrations cannot be read"
	case lambdas.RegistrationHeld:
		return slog.LevelWarn, "most registrations are gone at once; keeping their lambdas"
	case lambdas.RegistrationRecovered:
		if lambda == "" {
			return slog.LevelInfo, "registrations can be read again"
		}
		return slog.LevelInfo, "lambda is as registered again"
	}
	return slog.LevelWarn, "registration not taken"
}
