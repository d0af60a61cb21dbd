package harness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/test/checker"
	"github.com/kinesin-io/kinesin/test/job"
)

// callMax is how long one call may take, its retries included.
const callMax = 30 * time.Second

// Client schedules jobs on the lambda of a site and writes down what it asked for and what it was told.
type Client struct {
	*sdk.Client

	site *Site
}

// At is a client of one of the servers.
func (s *Site) At(server *Server) *Client {
	s.T.Helper()
	c, err := sdk.NewClient(server.URL, s.options.Client...)
	if err != nil {
		s.T.Fatal(err)
	}
	s.T.Cleanup(c.Close)
	return &Client{Client: c, site: s}
}

func (c *Client) within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), callMax)
}

// Wanted is a job to schedule.
type Wanted struct {
	Job     job.Job
	Want    string // the state in which it has to end; empty means success
	Options []sdk.Option
}

// Try schedules jobs with one call and returns those that were acknowledged.
func (c *Client) Try(ctx context.Context, wanted ...Wanted) ([]sdk.ID, error) {
	items := make([]sdk.Item, len(wanted))
	for i := range wanted {
		j := &wanted[i].Job
		j.Nonce = fmt.Sprintf("%s-%d", c.site.lambda, c.site.History.nonces.Add(1))
		items[i] = sdk.Item{Lambda: c.site.lambda, Payload: j.Payload()}
		for _, o := range wanted[i].Options {
			o(&items[i])
		}
		c.site.History.Add(checker.Event{Kind: checker.Requested, Nonce: j.Nonce, LimitKey: items[i].LimitKey})
	}
	results, err := c.ScheduleMany(ctx, items)
	var acked []sdk.ID
	for i, r := range results {
		if r.Err != nil {
			continue
		}
		w := wanted[i]
		c.site.History.Add(checker.Event{Kind: checker.Acked, Nonce: w.Job.Nonce, Task: string(r.ID), Due: r.Due.UnixMicro(), Want: w.Want})
		acked = append(acked, r.ID)
	}
	return acked, err
}

// Schedule schedules jobs, all of which must be acknowledged.
func (c *Client) Schedule(wanted ...Wanted) []sdk.ID {
	c.site.T.Helper()
	ctx, cancel := c.within()
	defer cancel()
	tasks, err := c.Try(ctx, wanted...)
	if err != nil {
		c.site.T.Fatal(err)
	}
	return tasks
}

// One schedules one job.
func (c *Client) One(j job.Job, opts ...sdk.Option) sdk.ID {
	c.site.T.Helper()
	return c.Schedule(Wanted{Job: j, Options: opts})[0]
}

// Settle waits until all tasks have ended, and writes down what the server says of each.
func (c *Client) Settle(atMost time.Duration, tasks []sdk.ID) []sdk.TaskInfo {
	c.site.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), atMost)
	defer cancel()
	var infos []sdk.TaskInfo
	for ids := range slices.Chunk(tasks, 1000) {
		results, err := c.Wait(ctx, ids...)
		if err != nil && !errors.Is(err, context.DeadlineExceeded) || len(results) != len(ids) {
			c.site.T.Fatalf("wait for %d tasks: %v", len(ids), err)
		}
		for i, r := range results {
			infos = append(infos, c.settled(ids[i], r))
		}
	}
	return infos
}

func (c *Client) settled(id sdk.ID, r sdk.GetResult) sdk.TaskInfo {
	if r.Err != nil {
		c.site.T.Errorf("task %s: %v", id, r.Err)
		return sdk.TaskInfo{ID: id}
	}
	c.site.History.Add(report(&r.Task))
	return r.Task
}

func report(t *sdk.TaskInfo) checker.Event {
	e := checker.Event{
		Kind: checker.Reported, Task: string(t.ID), State: t.State.String(), Attempt: uint32(t.Attempt),
		Failures: uint32(t.Failures), Lost: uint32(t.WorkerLost),
	}
	if n := len(t.Attempts); n > 0 && t.State.IsEnd() && string(t.Attempts[n-1].Outcome) == e.State {
		e.Winner = uint32(t.Attempts[n-1].Number)
	}
	return e
}
