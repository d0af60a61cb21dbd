package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

// GroupsConfig is a run of groups whose members are all due at once, beside as many tasks without groups.
type GroupsConfig struct {
	*Server

	Lambda   string // of members; that of follow-ups has a suffix
	Groups   int
	Members  int // of each
	Slots    int
	Ahead    time.Duration // from when all are scheduled to when they are due
	Progress Progress
}

// Validate refuses invalid values.
func (c *GroupsConfig) Validate() error {
	return errors.Join(
		within("groups", c.Groups, 1, groupsMax),
		within("members", c.Members, 1, sdk.GroupMembersMax),
		within("workers", c.Slots, 1, SlotsMax),
		within("time ahead", c.Ahead, time.Second, durationMax),
	)
}

// GroupsReport is what a run came to.
type GroupsReport struct {
	Groups           int     `json:"groups"`
	Members          int     `json:"members"` // of each
	AddSeconds       float64 `json:"add_seconds"`
	Seconds          float64 `json:"seconds"` // from when they are due to the last end
	Rate             float64 `json:"rate"`    // members per second
	CPU              float64 `json:"server_cpu_seconds_per_1000"`
	RSS              float64 `json:"rss_bytes"` // of the server, at the end
	PlainSeconds     float64 `json:"plain_seconds"`
	PlainRate        float64 `json:"plain_per_second"`
	Ratio            float64 `json:"ratio"`           // of Rate to PlainRate
	FollowUpP50      float64 `json:"lateness_p50_ms"` // from the end of the last member's handler to the start of the follow-up
	FollowUpP99      float64 `json:"lateness_p99_ms"`
	WrongFollowUps   int     `json:"wrong_follow_ups"` // that were told other counts
	DoubledFollowUps int     `json:"doubled_follow_ups"`
}

// groupsRun is a run in progress.
type groupsRun struct {
	GroupsConfig

	mu      sync.Mutex
	ends    map[string]time.Time // of the last member, by group; "" is none
	ended   int
	follows map[string]time.Time
	report  GroupsReport
	moved   chan struct{}
}

// RunGroups measures groups, and then as many tasks without one.
func RunGroups(ctx context.Context, c GroupsConfig) (GroupsReport, error) {
	r := &groupsRun{GroupsConfig: c, ends: map[string]time.Time{}, follows: map[string]time.Time{}, moved: make(chan struct{}, 1)}
	r.report.Groups, r.report.Members = c.Groups, c.Members
	for _, name := range []string{c.Lambda, r.follower()} {
		if _, _, err := admin.New(c.Client).Lambdas.Create(ctx, admin.Lambda{Name: name, Priorities: []string{"normal"}}); err != nil {
			return r.report, err
		}
	}
	err := withWorker(ctx, r.worker(), r.measure)
	return r.report, err
}

// withWorker runs a worker while measure does.
func withWorker(ctx context.Context, w *sdk.Worker, measure func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan error, 1)
	go func() {
		err := w.Run(ctx)
		cancel(fmt.Errorf("the worker ended: %w", err))
		ended <- err
	}()
	err := measure(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	cancel(nil)
	return errors.Join(err, <-ended)
}

func (r *groupsRun) follower() string { return r.Lambda + "-follow" }

func (r *groupsRun) worker() *sdk.Worker {
	w := sdk.NewWorker(r.Client, sdk.Slots(r.Slots), sdk.Grace(time.Second))
	w.Register(r.Lambda, func(_ context.Context, t *sdk.Task[[]byte]) error {
		group := ""
		if t.Member != nil {
			group = t.Member.Group
		}
		r.mu.Lock()
		r.ends[group] = time.Now()
		r.ended++
		r.mu.Unlock()
		poke(r.moved)
		return nil
	})
	w.Register(r.follower(), func(_ context.Context, t *sdk.Task[[]byte]) error {
		now := time.Now()
		r.mu.Lock()
		if _, twice := r.follows[t.Group.ID]; twice {
			r.report.DoubledFollowUps++
		} else {
			r.follows[t.Group.ID] = now
		}
		if t.Group.Members != r.Members || t.Group.Succeeded() != r.Members {
			r.report.WrongFollowUps++
		}
		r.mu.Unlock()
		poke(r.moved)
		return nil
	})
	return w
}

func (r *groupsRun) measure(ctx context.Context) error {
	all := r.Groups * r.Members
	began := time.Now()
	due := began.Add(r.Ahead)
	for range r.Groups {
		plan := sdk.Group(r.items(r.Members, due)...).Then(sdk.Item{Lambda: r.follower()})
		if _, err := plan.Schedule(ctx, r.Client); err != nil {
			return err
		}
	}
	r.report.AddSeconds = time.Since(began).Seconds()
	if late := time.Since(due); late > 0 {
		return fmt.Errorf("the last member was scheduled %v after its due time: want a longer --ahead", late.Round(time.Millisecond))
	}
	r.Progress.note("%d members of %d groups are scheduled", all, r.Groups)
	if err := clock.Sleep(ctx, clock.Real(), time.Until(due)); err != nil {
		return err
	}
	var last time.Time
	var err error
	r.report.CPU, err = r.cpuOf(ctx, all, func() (err error) {
		last, err = r.await(ctx, all, r.Groups)
		return err
	})
	if err != nil {
		return err
	}
	r.report.Seconds = last.Sub(due).Seconds()
	r.report.Rate = perSecond(all, r.report.Seconds)
	late := make([]int64, 0, r.Groups)
	for group, at := range r.follows {
		late = append(late, at.Sub(r.ends[group]).Microseconds())
	}
	slices.Sort(late)
	if r.report.RSS, err = r.rss(ctx); err != nil {
		return err
	}
	r.report.FollowUpP50, r.report.FollowUpP99 = percentile(late, 0.5), percentile(late, 0.99)
	due = time.Now().Add(r.Ahead)
	if _, err := r.Client.ScheduleMany(ctx, r.items(all, due)); err != nil {
		return err
	}
	r.Progress.note("%d tasks without a group are scheduled", all)
	if last, err = r.await(ctx, 2*all, r.Groups); err == nil {
		r.report.PlainSeconds = last.Sub(due).Seconds()
		if r.report.PlainRate = perSecond(all, r.report.PlainSeconds); r.report.PlainRate > 0 {
			r.report.Ratio = r.report.Rate / r.report.PlainRate
		}
	}
	return err
}

func (r *groupsRun) items(n int, due time.Time) []sdk.Item {
	items := make([]sdk.Item, n)
	for i := range items {
		items[i] = sdk.Item{Lambda: r.Lambda, At: due}
	}
	return items
}

// await waits until so many tasks and follow-ups have run, and returns when the last task did.
func (r *groupsRun) await(ctx context.Context, tasks, follows int) (last time.Time, err error) {
	for {
		r.mu.Lock()
		done := r.ended >= tasks && len(r.follows) >= follows
		for _, at := range r.ends {
			if at.After(last) {
				last = at
			}
		}
		have := fmt.Sprintf("%d of %d tasks and %d of %d follow-ups have run", r.ended, tasks, len(r.follows), follows)
		r.mu.Unlock()
		if done {
			return last, nil
		}
		if err := await(ctx, r.moved, r.Ahead+patienceBase); err != nil {
			return last, errors.Join(err, errors.New(have))
		}
		_ = clock.Sleep(ctx, clock.Real(), 10*time.Millisecond) // rather than at each task
	}
}

// Print writes the report for people.
func (o *GroupsReport) Print(w io.Writer) error {
	_, err := fmt.Fprintf(w, `groups: %d of %d members, added in %.1f s
ended in %.3f s, %.0f members/s, CPU-seconds of the server per 1,000 %.4f; without groups in %.3f s, %.0f tasks/s; ratio %.2f
follow-ups: p50 %.1f ms, p99 %.1f ms after the last member; %d with other counts, %d twice
`, o.Groups, o.Members, o.AddSeconds, o.Seconds, o.Rate, o.CPU, o.PlainSeconds, o.PlainRate, o.Ratio, o.FollowUpP50, o.FollowUpP99, o.WrongFollowUps, o.DoubledFollowUps)
	return err
}
