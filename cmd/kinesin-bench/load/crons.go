package load

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kinesin-io/kinesin/sdk/admin"
)

const (
	// aheadPerCron is the time that each cron gets to be created in: 167 a second are slow, as on a busy machine.
	aheadPerCron = 6 * time.Millisecond
	// cronCallersMax bounds the calls in flight while crons are created.
	cronCallersMax = 64
	// spreadCrons is over what time H spreads the crons.
	spreadCrons = time.Minute
)

// crons creates crons that fire at one instant each day, or, with H, at one second of a minute, and waits
// until the first occurrence of each has started.
func (r *run) crons(ctx context.Context) (phase, error) {
	ahead := r.Ahead
	if ahead == 0 {
		ahead = 2*aheadBase + time.Duration(r.Tasks)*aheadPerCron
	}
	first := time.Now().Add(ahead + time.Second - 1).Truncate(time.Second).UTC()
	schedule, length := first.Format("5 4 15 * * *"), time.Duration(0)
	if r.Spread {
		first = first.Add(spreadCrons - 1).Truncate(spreadCrons)
		schedule, length = first.Format("H 4 15 * * *"), spreadCrons
	}
	p, err := r.begin(ctx)
	if err != nil {
		return p, err
	}
	p.from = time.Now()
	bodies := payloads(r.Tasks, r.PayloadBytes, func(i int) uint64 { return uint64(i) })
	group, calls := errgroup.WithContext(ctx)
	group.SetLimit(cronCallersMax)
	for i := range r.Tasks {
		group.Go(func() error {
			made, _, err := admin.New(r.Client).Crons.Create(calls, admin.Cron{Name: r.cronName(i), Lambda: r.Lambda, Schedule: schedule, Payload: bodies[i]})
			if err == nil && (len(made.Next) == 0 || made.Next[0].Before(first) || made.Next[0].After(first.Add(length))) {
				err = fmt.Errorf("creating the crons took longer than there was time before they fire: choose a longer --ahead")
			}
			if err == nil {
				r.seen.due[i] = made.Next[0].UnixMicro()
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return p, err
	}
	r.accepted = r.Tasks
	p.to = time.Now()
	if r.inserted, err = r.finish(ctx, p); err != nil {
		return p, err
	}
	return r.awaitFrom(ctx, first, length)
}

func (r *run) cronName(i int) string { return fmt.Sprint(r.Lambda, "-", i) }

// deleteCrons deletes the crons of a run.
func (r *run) deleteCrons(ctx context.Context) error {
	var group errgroup.Group
	group.SetLimit(cronCallersMax)
	for i := range r.accepted {
		group.Go(func() error { return admin.New(r.Client).Crons.Delete(ctx, r.cronName(i)) })
	}
	return group.Wait()
}
