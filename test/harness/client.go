package harness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/test/checker"
	"github.com/kinesin-io/kinesin/test/job"
)

// callMax is how long one call may take, its retries included.
const callMax = 30 * time.Second

// Client schedules jobs on a lambda and writes down what it asked for and what it was told.
type Client struct {
	*sdk.Client

	tb      testing.TB
	lambda  string
	history *History
	options []sdk.ClientOption
}

// newClient returns a client and creates its lambda.
func newClient(tb testing.TB, s *Server, h *History, l sdk.LambdaInfo, opts ...sdk.ClientOption) *Client {
	tb.Helper()
	c := connect(tb, s, h, l.Name, opts)
	ctx, cancel := c.within()
	defer cancel()
	if _, _, err := c.CreateLambda(ctx, l); err != nil {
		tb.Fatal(err)
	}
	return c
}

func connect(tb testing.TB, s *Server, h *History, lambda string, opts []sdk.ClientOption) *Client {
	tb.Helper()
	k, err := sdk.NewClient(s.URL, opts...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(k.Close)
	return &Client{Client: k, tb: tb, lambda: lambda, history: h, options: opts}
}

// At is a client of another server over the same store, for the same lambda.
func (c *Client) At(s *Server) *Client {
	c.tb.Helper()
	return connect(c.tb, s, c.history, c.lambda, c.options)
}

func (c *Client) within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), callMax)
}

// Task is a job that was acknowledged.
type Task struct {
	ID  sdk.ID
	Due time.Time
	Job job.Job
	// Want is the state in which it has to end; empty means success.
	Want string
}

// Wanted is a job to schedule.
type Wanted struct {
	Job     job.Job
	Want    string
	Options []sdk.Option
}

// Try schedules jobs with one call and returns those that were acknowledged.
func (c *Client) Try(ctx context.Context, wanted ...Wanted) ([]Task, error) {
	items := make([]sdk.Item, len(wanted))
	for i := range wanted {
		j := &wanted[i].Job
		j.Nonce = fmt.Sprintf("%s-%d", c.lambda, c.history.nonces.Add(1))
		items[i] = sdk.Item{Lambda: c.lambda, Payload: j.Payload()}
		for _, o := range wanted[i].Options {
			o(&items[i])
		}
		c.history.Add(checker.Event{Kind: checker.Requested, Nonce: j.Nonce})
	}
	results, err := c.ScheduleMany(ctx, items)
	var acked []Task
	for i, r := range results {
		if r.Err != nil {
			continue
		}
		w := wanted[i]
		c.history.Add(checker.Event{Kind: checker.Acked, Nonce: w.Job.Nonce, Task: string(r.ID), Due: r.Due.UnixMicro(), Want: w.Want})
		acked = append(acked, Task{ID: r.ID, Due: r.Due, Job: w.Job, Want: w.Want})
	}
	return acked, err
}

// Schedule schedules jobs, all of which must be acknowledged.
func (c *Client) Schedule(wanted ...Wanted) []Task {
	c.tb.Helper()
	ctx, cancel := c.within()
	defer cancel()
	tasks, err := c.Try(ctx, wanted...)
	if err != nil {
		c.tb.Fatal(err)
	}
	return tasks
}

// One schedules one job.
func (c *Client) One(j job.Job, opts ...sdk.Option) Task {
	c.tb.Helper()
	return c.Schedule(Wanted{Job: j, Options: opts})[0]
}

// Settle waits until all tasks have ended, and writes down what the server says of each.
func (c *Client) Settle(atMost time.Duration, tasks []Task) []sdk.TaskInfo {
	c.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), atMost)
	defer cancel()
	var infos []sdk.TaskInfo
	for batch := range slices.Chunk(tasks, 1000) {
		ids := make([]sdk.ID, len(batch))
		for i := range batch {
			ids[i] = batch[i].ID
		}
		results, err := c.Wait(ctx, ids...)
		if err != nil && !errors.Is(err, context.DeadlineExceeded) || len(results) != len(ids) {
			c.tb.Fatalf("wait for %d tasks: %v", len(ids), err)
		}
		for i, r := range results {
			infos = append(infos, c.settled(ids[i], r))
		}
	}
	return infos
}

func (c *Client) settled(id sdk.ID, r sdk.GetResult) sdk.TaskInfo {
	if r.Err != nil {
		c.tb.Errorf("task %s: %v", id, r.Err)
		return sdk.TaskInfo{ID: id}
	}
	c.history.Add(report(&r.Task))
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
