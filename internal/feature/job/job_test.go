package job_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/inbound/inboundtest"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/feature/job"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// horizon is how far ahead a task may be due here.
const horizon = 1000 * time.Hour

// fixture is a store with an inbound, in virtual time, on which servers run jobs.
type fixture struct {
	*inbound.Inbound
	*inboundtest.World

	mu       sync.Mutex
	moved    map[task.ID][]int64 // the due times that tasks were to be moved to
	gone     int                 // batches of tasks that are still not moved, because the store is gone
	onCancel func(batch int)     // called before each batch
	onMove   func(batch int)
	batches  int
	ended    []string
}

func run(t *testing.T, test func(f *fixture)) {
	t.Helper()
	inboundtest.Run(t, func(w *inboundtest.World) {
		f := &fixture{World: w, moved: map[task.ID][]int64{}}
		f.Inbound = w.Inbound(inbound.Config{}, horizon)
		for _, name := range []string{"mail", "pay"} {
			f.Create(task.Lambda{Name: name, Shards: 3})
		}
		test(f)
	})
}

// CancelRows counts batches, and calls what a test wants to happen before one.
func (f *fixture) CancelRows(ctx context.Context, rows []inbound.Row) []inbound.Changed {
	f.mu.Lock()
	f.batches++
	batch, before := f.batches, f.onCancel
	f.mu.Unlock()
	if before != nil {
		before(batch)
	}
	return f.Inbound.CancelRows(ctx, rows)
}

// RescheduleRows notes where tasks go, and moves them.
func (f *fixture) RescheduleRows(ctx context.Context, rows []inbound.Row, to func(*task.Task) (task.Instant, error)) []inbound.Changed {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.batches++
	if f.gone > 0 {
		f.gone--
		changed := make([]inbound.Changed, len(rows))
		for i := range changed {
			changed[i].Err = api.Errorf(kinesinv1.Reason_REASON_UNAVAILABLE, "the store does not answer")
		}
		return changed
	}
	if f.onMove != nil {
		f.onMove(f.batches)
	}
	return f.Inbound.RescheduleRows(ctx, rows, func(t *task.Task) (task.Instant, error) {
		due, err := to(t)
		if err == nil {
			f.moved[t.ID] = append(f.moved[t.ID], int64(due))
		}
		return due, err
	})
}

// server is a process that runs jobs.
type server struct {
	*job.Service
}

func (f *fixture) server(change ...func(*job.Config)) *server {
	c := job.Config{
		Store: f.Store, Tasks: f, Clock: f.Clock, Log: slog.New(slog.DiscardHandler), Shared: true,
		Ended: func(_ context.Context, j *kinesinv1.Job) { f.ended = append(f.ended, j.Id+" "+j.State) },
	}
	for _, one := range change {
		one(&c)
	}
	s := job.New(c)
	ctx, cancel := context.WithCancel(f.T.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = s.Run(ctx)
	}()
	if d, is := c.Store.(*dying); is {
		d.die = cancel
	}
	f.T.Cleanup(func() {
		cancel()
		<-over
	})
	synctest.Wait()
	return &server{s}
}

func (f *fixture) schedule(lambda, collection string, n int) {
	f.T.Helper()
	items := make([]*kinesinv1.ScheduleItem, n)
	for i := range items {
		items[i] = &kinesinv1.ScheduleItem{Lambda: lambda, Collection: collection, Delay: (time.Hour + time.Duration(i)*time.Second).Microseconds()}
	}
	r, err := f.Schedule(f.Ctx, &kinesinv1.ScheduleRequest{Items: items})
	if err != nil || r.Results[0].Problem != nil {
		f.T.Fatal(r, err)
	}
}

func (f *fixture) count(expression string) int64 {
	f.T.Helper()
	r, err := f.Count(access.With(f.T.Context(), access.Caller{Identity: access.Anonymous()}), &kinesinv1.CountRequest{Where: expression})
	if err != nil {
		f.T.Fatal(err)
	}
	return r.Count
}

func (f *fixture) create(s *server, r *kinesinv1.CreateJobRequest) *kinesinv1.Job {
	f.T.Helper()
	response, err := s.CreateJob(f.Ctx, r)
	if err != nil {
		f.T.Fatal(err)
	}
	synctest.Wait()
	return response.Job
}

func (f *fixture) job(s *server, id string) *kinesinv1.Job {
	f.T.Helper()
	r, err := s.GetJob(f.Ctx, &kinesinv1.GetJobRequest{Id: id})
	if err != nil {
		f.T.Fatal(err)
	}
	return r.Job
}

func (f *fixture) control(s *server, id, action string) {
	f.T.Helper()
	if _, err := s.ControlJob(f.Ctx, &kinesinv1.ControlJobRequest{Id: id, Action: action}); err != nil {
		f.T.Fatal(err)
	}
	synctest.Wait()
}

func (f *fixture) wantJob(s *server, id, want string) {
	f.T.Helper()
	j := f.job(s, id)
	if got := fmt.Sprint(j.State, " ", j.Matched, " ", j.Outcomes); got != want {
		f.T.Errorf("job: %s (%s), want %s", got, j.Problem, want)
	}
}

func TestAJobChangesItsSet(t *testing.T) {
	run(t, func(f *fixture) {
		f.schedule("mail", "", 2500)
		f.schedule("pay", "", 300)
		s := f.server()
		j := f.create(s, &kinesinv1.CreateJobRequest{Action: "cancel", Where: "lambda=mail and due<+100m"})
		if j.State != "running" || j.Id == "" || j.CreatedBy != "ops" {
			t.Error(j)
		}
		f.Time.Advance(3 * time.Second)
		f.wantJob(s, j.Id, "done 2400 map[cancelled:2400]")
		if live := f.count("state=scheduled"); live != 400 {
			t.Errorf("%d tasks live", live)
		}
		all, err := s.ListJobs(f.Ctx, &kinesinv1.ListJobsRequest{})
		if err != nil || len(all.Jobs) != 1 || len(f.ended) != 1 || f.ended[0] != j.Id+" done" {
			t.Errorf("%v, %v, %v", all, err, f.ended)
		}
	})
}

// A job is paced, pauses, goes on and stops, each within two seconds.
func TestAJobIsControlled(t *testing.T) {
	run(t, func(f *fixture) {
		f.schedule("mail", "", 1000)
		s := f.server()
		j := f.create(s, &kinesinv1.CreateJobRequest{Action: "cancel", Where: "lambda=mail", Pace: 10})
		f.Time.Advance(20 * time.Second)
		if n := f.count("state=cancelled"); n < 190 || n > 215 {
			t.Errorf("%d tasks in 20 s at 10 a second", n)
		}
		f.control(s, j.Id, "pause")
		f.Time.Advance(2 * time.Second)
		paused := f.count("state=cancelled")
		f.Time.Advance(time.Minute)
		if n := f.count("state=cancelled"); n != paused || f.job(s, j.Id).State != "paused" {
			t.Errorf("%d tasks, and %d a minute later", paused, n)
		}
		f.control(s, j.Id, "resume")
		f.Time.Advance(10 * time.Second)
		if n := f.count("state=cancelled"); n < paused+80 || n > paused+110 {
			t.Errorf("%d tasks 10 s later, from %d", n, paused)
		}
		f.control(s, j.Id, "stop")
		f.Time.Advance(2 * time.Second)
		stopped := f.count("state=cancelled")
		f.Time.Advance(time.Minute)
		if n := f.count("state=cancelled"); n != stopped || f.job(s, j.Id).State != "stopped" {
			t.Errorf("%d tasks, and %d a minute later", stopped, n)
		}
		for _, action := range []string{"pause", "resume"} {
			_, err := s.ControlJob(f.Ctx, &kinesinv1.ControlJobRequest{Id: j.Id, Action: action})
			if !errors.Is(err, api.ErrTooLate) || !strings.Contains(err.Error(), "the job has ended: stopped") {
				t.Errorf("%s: %v", action, err)
			}
		}
		f.control(s, j.Id, "stop") // again
	})
}

// A server dies in the middle of a batch: its row tells another one where to go on.
func TestAnotherServerGoesOn(t *testing.T) {
	run(t, func(f *fixture) {
		f.schedule("mail", "", 5000)
		first := f.server(func(c *job.Config) { c.Store = &dying{Store: f.Store, saves: 4} })
		j := f.create(first, &kinesinv1.CreateJobRequest{Action: "cancel", Where: "lambda=mail"})
		f.Time.Advance(5 * time.Second)
		if n := f.count("state=cancelled"); n == 0 || n == 5000 {
			t.Fatalf("%d tasks were cancelled before the server died", n)
		}
		second := f.server()
		f.Time.Advance(3 * time.Second)
		if j := f.job(second, j.Id); j.State != "running" {
			t.Errorf("taken before the lease was over: %v", j)
		}
		f.Time.Advance(20 * time.Second)
		if n := f.count("state=cancelled"); n != 5000 || f.job(second, j.Id).State != "done" {
			t.Errorf("%d tasks, %v", n, f.job(second, j.Id))
		}
	})
}

// dying is the store of a process that dies: after some writes none gets there, and nothing is read.
type dying struct {
	job.Store

	mu    sync.Mutex
	saves int
	die   func()
}

var errDead = errors.New("dead")

func (d *dying) PutControl(ctx context.Context, c store.Control) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.saves--; d.saves < 0 {
		d.die()
		return errDead
	}
	return d.Store.PutControl(ctx, c)
}

func (d *dying) Controls(ctx context.Context, kind string) ([]store.Control, error) {
	if d.isDead() {
		return nil, errDead
	}
	return d.Store.Controls(ctx, kind)
}

func (d *dying) isDead() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.saves < 0
}

// A job has one writer, however many servers there are.
func TestAJobHasOneWriter(t *testing.T) {
	run(t, func(f *fixture) {
		f.schedule("mail", "", 2000)
		var at, most int
		f.onCancel = func(int) {
			f.mu.Lock()
			at++
			most = max(most, at)
			f.mu.Unlock()
			_ = clock.Sleep(f.T.Context(), f.Clock, 3*time.Second)
			f.mu.Lock()
			at--
			f.mu.Unlock()
		}
		s := f.server()
		f.server()
		f.server()
		j := f.create(s, &kinesinv1.CreateJobRequest{Action: "cancel", Where: "lambda=mail", Pace: 400})
		f.Time.Advance(2 * time.Minute)
		if f.wantJob(s, j.Id, "done 2000 map[cancelled:2000]"); most != 1 {
			t.Errorf("%d servers ran it at once", most)
		}
	})
}

// A server that was at one batch for longer than its lease lets go of the job, which another server has by then.
func TestAServerLetsGoOfAJobThatAnotherHas(t *testing.T) {
	run(t, func(f *fixture) {
		f.schedule("mail", "", 5000)
		var at, most int
		f.onCancel = func(batch int) {
			if batch == 1 {
				_ = clock.Sleep(f.T.Context(), f.Clock, 16*time.Second)
				return
			}
			f.mu.Lock()
			at++
			most = max(most, at)
			f.mu.Unlock()
			_ = clock.Sleep(f.T.Context(), f.Clock, 3*time.Second)
			f.mu.Lock()
			at--
			f.mu.Unlock()
		}
		s := f.server()
		f.server()
		j := f.create(s, &kinesinv1.CreateJobRequest{Action: "cancel", Where: "lambda=mail"})
		f.Time.Advance(2 * time.Minute)
		if got := f.job(s, j.Id); got.State != "done" || f.count("state=cancelled") != 5000 || most != 1 || len(f.ended) != 1 {
			t.Errorf("%v; %d servers ran it at once, ended %v", got, most, f.ended)
		}
	})
}

// A job acts with the grants of its maker, whoever runs it.
func TestAJobMayDoWhatItsMakerMay(t *testing.T) {
	run(t, func(f *fixture) {
		f.schedule("mail", "", 20)
		f.schedule("mail", "seven", 10)
		f.schedule("pay", "", 5)
		f.As("ops", "read:mail", "cancel:mail:seven")
		s := f.server()
		j := f.create(s, &kinesinv1.CreateJobRequest{Action: "cancel", All: true})
		f.Time.Advance(5 * time.Second)
		f.wantJob(s, j.Id, "done 30 map[cancelled:10 permission_denied:20]")
		if got := f.job(s, j.Id); len(got.Refused) != 20 || !strings.Contains(got.Refused[0].Text, "ops has no grant for cancel on lambda mail") {
			t.Error(got.Refused)
		}
	})
}

// A job that its maker resumes does no more than its maker may do then.
func TestAResumedJobMayDoWhatItsMakerMayNow(t *testing.T) {
	run(t, func(f *fixture) {
		f.schedule("mail", "", 20)
		f.As("ops", "read:mail", "cancel:mail")
		s := f.server()
		j := f.create(s, &kinesinv1.CreateJobRequest{Action: "cancel", All: true, Pace: 2})
		f.control(s, j.Id, "pause")
		f.Time.Advance(5 * time.Second)
		cancelled := f.count("state=cancelled")
		f.As("ops", "read:mail")
		f.control(s, j.Id, "resume")
		f.Time.Advance(time.Minute)
		f.wantJob(s, j.Id, fmt.Sprintf("done 20 map[cancelled:%d permission_denied:%d]", cancelled, 20-cancelled))
		if cancelled == 0 || cancelled > 10 {
			t.Errorf("%d tasks were cancelled before it was paused", cancelled)
		}
	})
}

// A job that lists its tasks first moves only what its maker may move.
// A grant that the maker of a job loses is lost from its next batch on, and a new grant changes nothing.
func TestAJobMayNoMoreThanItsMakerStillMay(t *testing.T) {
	run(t, func(f *fixture) {
		f.schedule("mail", "", 100)
		f.schedule("pay", "", 100)
		f.As("ops", "read:*", "cancel:mail")
		may, problem := access.All(), error(nil)
		s := f.server(func(c *job.Config) {
			c.GrantsOf = func(_ context.Context, identity string) (access.Grants, error) {
				if identity != "ops" {
					t.Errorf("asked for %q", identity)
				}
				f.mu.Lock()
				defer f.mu.Unlock()
				return may, problem
			}
		})
		now := func(grants access.Grants, err error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			may, problem = grants, err
		}
		j := f.create(s, &kinesinv1.CreateJobRequest{Action: "cancel", All: true})
		f.Time.Advance(5 * time.Second)
		f.wantJob(s, j.Id, "done 200 map[cancelled:100 permission_denied:100]")

		f.As("ops", "*:*")
		j = f.create(s, &kinesinv1.CreateJobRequest{Action: "cancel", All: true, Pace: 10})
		f.Time.Advance(5 * time.Second)
		less, err := access.ParseGrants([]string{"read:*", "cancel:mail"})
		if err != nil {
			t.Fatal(err)
		}
		now(less, nil)
		f.Time.Advance(30 * time.Second)
		if n := f.count("lambda=pay and state=cancelled"); n < 45 || n > 60 || f.job(s, j.Id).State != "done" {
			t.Errorf("%d of the tasks that the maker may no longer cancel, %v", n, f.job(s, j.Id))
		}

		now(access.All(), nil)
		f.schedule("mail", "", 100)
		j = f.create(s, &kinesinv1.CreateJobRequest{Action: "cancel", Where: "lambda=mail", Pace: 10})
		paused := f.create(s, &kinesinv1.CreateJobRequest{Action: "expire", Where: "lambda=mail", Pace: 1})
		f.control(s, paused.Id, "pause")
		f.Time.Advance(2 * time.Second)
		now(nil, api.Errorf(kinesinv1.Reason_REASON_UNAVAILABLE, "the store does not answer"))
		f.Time.Advance(10 * time.Second)
		if j := f.job(s, j.Id); j.State != "running" || j.Problem == "" {
			t.Errorf("while nobody knows what the maker may do: %v", j)
		}
		now(nil, api.Errorf(kinesinv1.Reason_REASON_PERMISSION_DENIED, "it was revoked"))
		f.Time.Advance(time.Minute)
		if j := f.job(s, j.Id); j.State != "failed" || j.Problem != "it was revoked" || j.Outcomes["cancelled"] > 40 {
			t.Errorf("%v", j)
		}
		if _, err := s.ControlJob(f.Ctx, &kinesinv1.ControlJobRequest{Id: paused.Id, Action: "resume"}); !errors.Is(err, api.ErrPermissionDenied) {
			t.Errorf("resumed: %v", err)
		}
	})
}

func TestAShiftMovesWhatItsMakerMayMove(t *testing.T) {
	run(t, func(f *fixture) {
		f.schedule("mail", "", 20)
		f.schedule("mail", "seven", 10)
		f.schedule("pay", "", 5)
		f.As("ops", "read:mail", "schedule:mail:seven")
		s := f.server()
		j := f.create(s, &kinesinv1.CreateJobRequest{Action: "reschedule", All: true, By: time.Minute.Microseconds()})
		f.Time.Advance(5 * time.Second)
		f.wantJob(s, j.Id, "done 30 map[permission_denied:20 rescheduled:10]")
		if got := f.job(s, j.Id); len(f.moved) != 10 || len(got.Refused) != 20 {
			t.Error(len(f.moved), got.Refused)
		}
	})
}

func TestADryRunChangesNothing(t *testing.T) {
	run(t, func(f *fixture) {
		f.schedule("mail", "", 40)
		s := f.server()
		j := f.create(s, &kinesinv1.CreateJobRequest{Action: "cancel", Where: "lambda=mail", DryRun: true})
		f.Time.Advance(5 * time.Second)
		if j.State != "counted" || j.Matched != 40 || !j.MatchedExact || len(j.Sample) != 10 || j.Cost == "" || j.Id != "" {
			t.Error(j)
		}
		if n := f.count("state=cancelled"); n != 0 {
			t.Errorf("%d tasks were cancelled", n)
		}
		metered := f.server(func(c *job.Config) { c.Metered = true })
		if j := f.create(metered, &kinesinv1.CreateJobRequest{Action: "cancel", Where: "lambda=mail", DryRun: true}); !strings.Contains(j.Cost, "44 read units") || !strings.Contains(j.Cost, "80 write units") {
			t.Error(j.Cost)
		}
	})
}

// Tasks that are moved by some time are met again where they are now, but moved once.
func TestAShiftMovesEachTaskOnce(t *testing.T) {
	run(t, func(f *fixture) {
		f.schedule("mail", "", 1500)
		f.gone = 3
		s := f.server()
		j := f.create(s, &kinesinv1.CreateJobRequest{Action: "reschedule", Where: "lambda=mail", By: (10 * time.Minute).Microseconds()})
		f.Time.Advance(5 * time.Minute)
		f.wantJob(s, j.Id, "done 1500 map[rescheduled:1500]")
		dues := map[int64]bool{}
		for id, to := range f.moved {
			for _, due := range to {
				if due != to[0] {
					t.Errorf("%s was moved to %v", id, to)
				}
			}
			dues[to[0]] = true
		}
		from := int64(inboundtest.Start.Add(70 * time.Minute))
		if len(dues) != 1500 || !dues[from] {
			t.Errorf("moved to %d times", len(dues))
		}
		for _, kind := range []string{"job", "job-plan"} {
			if rows, _ := f.Store.Controls(f.Ctx, kind); len(rows) > 0 {
				t.Errorf("%d rows of kind %s are left", len(rows), kind)
			}
		}
	})
}

// Somebody moves tasks himself while a job is about to: they stay where he wants them. A task that is changed
// otherwise is moved.
func TestAShiftLeavesWhatSomebodyMoved(t *testing.T) {
	run(t, func(f *fixture) {
		f.schedule("mail", "", 1500)
		of, err := inbound.Select("due<+61m", inboundtest.Start, access.All())
		if err != nil {
			t.Fatal(err)
		}
		page, err := f.Page(f.Ctx, &of, nil, 10)
		if err != nil || len(page.Rows) < 3 {
			t.Fatal(page, err)
		}
		rows := page.Rows[:3]
		s := f.server()
		elsewhere := int64(inboundtest.Start.Add(20 * time.Hour))
		f.onMove = func(batch int) { // the job has read the rows of the batch
			if batch > 1 {
				return
			}
			for i, r := range rows {
				var response *kinesinv1.ChangeResponse
				var err error
				if i < 2 {
					response, err = f.Reschedule(f.Ctx, &kinesinv1.RescheduleRequest{Ids: []string{f.PublicID(&r)}, Due: elsewhere})
				} else {
					response, err = f.Update(f.Ctx, &kinesinv1.UpdateRequest{Updates: []*kinesinv1.TaskUpdate{{Id: f.PublicID(&r), Payload: []byte("other"), Fields: []string{"payload"}}}})
				}
				if err != nil || response.Results[0].Problem != nil {
					t.Error(response, err)
				}
			}
		}
		j := f.create(s, &kinesinv1.CreateJobRequest{Action: "reschedule", Where: "lambda=mail", By: (10 * time.Minute).Microseconds()})
		f.Time.Advance(time.Minute)
		f.wantJob(s, j.Id, "done 1500 map[rescheduled:1498 stale_seq:2]")
		if got := f.job(s, j.Id).Refused; len(got) != 2 || !strings.Contains(got[0].Text, "was moved since the job listed it: it is due at 2023-11-15T18:13:20Z") {
			t.Error(got)
		}
		if n := f.count("due=2023-11-15T18:13:20Z"); n != 2 {
			t.Errorf("%d tasks are where they were moved by hand", n)
		}
	})
}

// A server dies while it works off a list: the next one goes on, and moves no task twice.
func TestAShiftGoesOn(t *testing.T) {
	run(t, func(f *fixture) {
		f.schedule("mail", "", 5000)
		first := f.server(func(c *job.Config) { c.Store = &dying{Store: f.Store, saves: 14} })
		j := f.create(first, &kinesinv1.CreateJobRequest{Action: "reschedule", Where: "lambda=mail", By: (3 * time.Hour).Microseconds()})
		f.Time.Advance(5 * time.Second)
		if n := len(f.moved); n == 0 || n == 5000 {
			t.Fatalf("%d tasks were moved before the server died", n)
		}
		second := f.server()
		f.Time.Advance(30 * time.Second)
		f.wantJob(second, j.Id, "done 5000 map[rescheduled:5000]")
		early, inHour := f.count("due<2023-11-15T02:13:20Z"), f.count("due<2023-11-15T03:13:20Z")
		if early != 0 || inHour != 3600 {
			t.Errorf("%d tasks were not moved, %d are due in the first hour", early, inHour)
		}
	})
}

// Tasks that are to be due in the past are due now, and are not counted again where the job meets them there.
func TestATimeInThePastMeansNow(t *testing.T) {
	run(t, func(f *fixture) {
		f.schedule("mail", "", 100)
		s := f.server()
		f.Time.Advance(10 * time.Minute)
		j := f.create(s, &kinesinv1.CreateJobRequest{Action: "reschedule", Where: "lambda=mail", Due: int64(inboundtest.Start.Add(time.Minute))})
		f.Time.Advance(5 * time.Second)
		f.wantJob(s, j.Id, "done 100 map[rescheduled:100]")
		if n := f.count("due>=2023-11-14T22:23:20Z and due<+1s"); n != 100 {
			t.Errorf("%d tasks are due now", n)
		}
	})
}

// A time that one task cannot have is no reason for the others to stay.
func TestAShiftBeyondTheHorizon(t *testing.T) {
	run(t, func(f *fixture) {
		f.schedule("mail", "", 3602)
		s := f.server()
		j := f.create(s, &kinesinv1.CreateJobRequest{Action: "reschedule", Where: "lambda=mail", By: (998 * time.Hour).Microseconds()})
		f.Time.Advance(time.Minute)
		f.wantJob(s, j.Id, "done 3602 map[invalid:1 rescheduled:3601]")
	})
}

// Most tasks are moved ahead, where the job meets them again.
func TestASpreadIsEven(t *testing.T) {
	run(t, func(f *fixture) {
		f.schedule("mail", "", 2000)
		s := f.server()
		j := f.create(s, &kinesinv1.CreateJobRequest{Action: "reschedule", Where: "lambda=mail", Spread: (8 * time.Hour).Microseconds()})
		f.Time.Advance(time.Minute)
		f.wantJob(s, j.Id, "done 2000 map[rescheduled:2000]")
		if f.batches > 4 {
			t.Errorf("%d writes", f.batches)
		}
		quarters := map[int64]int{}
		for _, to := range f.moved {
			quarters[(to[0]-int64(inboundtest.Start))/(2*time.Hour).Microseconds()]++
		}
		for q := range int64(4) {
			if n := quarters[q]; n < 400 || n > 600 {
				t.Errorf("%d tasks in quarter %d", n, q)
			}
		}
	})
}

// A task that ends again after it was redriven is not redriven again.
func TestARedriveHasAnEnd(t *testing.T) {
	run(t, func(f *fixture) {
		f.schedule("mail", "", 100)
		s := f.server()
		f.create(s, &kinesinv1.CreateJobRequest{Action: "cancel", Where: "lambda=mail"})
		f.Time.Advance(5 * time.Second)
		j := f.create(s, &kinesinv1.CreateJobRequest{Action: "redrive", Where: "state=cancelled", Pace: 20})
		f.Time.Advance(time.Second)
		f.schedule("mail", "", 50)
		f.create(s, &kinesinv1.CreateJobRequest{Action: "cancel", Where: "state=scheduled"})
		f.Time.Advance(20 * time.Second)
		f.wantJob(s, j.Id, "done 100 map[redriven:100]")
		f.create(s, &kinesinv1.CreateJobRequest{Action: "cancel", Where: "state=scheduled"}) // what was redriven after the first cancel
		f.Time.Advance(5 * time.Second)
		again := f.create(s, &kinesinv1.CreateJobRequest{Action: "redrive", Where: "state=cancelled"})
		f.Time.Advance(5 * time.Second)
		f.wantJob(s, again.Id, "done 150 map[redriven:150]")
	})
}

func TestJobsThatAreRefused(t *testing.T) {
	run(t, func(f *fixture) {
		s := f.server()
		for says, r := range map[string]*kinesinv1.CreateJobRequest{
			`action "burn": want one of cancel, delete, expire, redrive, reschedule`: {Action: "burn", All: true},
			"without a filter changes all tasks":                                     {Action: "cancel"},
			"without a filter changes all tasks ":                                    {Action: "cancel", Where: " "},
			"the filter matches every task that a cancel can change":                 {Action: "cancel", Where: "attempts>=0 and state!=dead"},
			"every task that a delete can change":                                    {Action: "delete", Where: "not (lambda=x and lambda!=x)", DryRun: true},
			"at character 1: unknown field":                                          {Action: "cancel", Where: "x=1"},
			"says how in 0 ways: want one of by, spread and due":                     {Action: "reschedule", All: true},
			"says how in 2 ways":                                                     {Action: "reschedule", All: true, By: 1, Due: 1},
			"by, spread and due are of":                                              {Action: "cancel", All: true, By: 1},
			"force is of redrive":                                                    {Action: "cancel", All: true, Force: true},
			"pace 2000000: want 1 to 1000000":                                        {Action: "cancel", All: true, Pace: 2_000_000},
			"by: want at most":                                                       {Action: "reschedule", All: true, By: 1 << 62},
			"spread: want":                                                           {Action: "reschedule", All: true, Spread: -1},
			"request_id: 3 bytes":                                                    {Action: "cancel", All: true, RequestId: []byte("abc")},
		} {
			_, err := s.CreateJob(f.Ctx, r)
			if !errors.Is(err, api.ErrInvalid) || !strings.Contains(err.Error(), strings.TrimSpace(says)) {
				t.Errorf("%v: %v, want %q", r, err, says)
			}
		}
		if _, err := s.CreateJob(f.Ctx, &kinesinv1.CreateJobRequest{Action: "cancel", Where: "attempts>=0", All: true}); err != nil {
			t.Error("although all is set: ", err)
		}
		if _, err := s.GetJob(f.Ctx, &kinesinv1.GetJobRequest{Id: "nope"}); !errors.Is(err, api.ErrNotFound) {
			t.Error(err)
		}
		if _, err := s.ControlJob(f.Ctx, &kinesinv1.ControlJobRequest{Id: "nope", Action: "stop"}); !errors.Is(err, api.ErrNotFound) {
			t.Error(err)
		}
		if _, err := s.ControlJob(f.Ctx, &kinesinv1.ControlJobRequest{Id: "nope", Action: "burn"}); !errors.Is(err, api.ErrInvalid) {
			t.Error(err)
		}
	})
}

// A call that is made again, because its answer was lost, makes no second job.
func TestARepeatedCallMakesOneJob(t *testing.T) {
	run(t, func(f *fixture) {
		f.schedule("mail", "", 5)
		s := f.server()
		id := task.NewID(inboundtest.Start, 1, 2)
		r := &kinesinv1.CreateJobRequest{Action: "cancel", Where: "lambda=mail", RequestId: id[:]}
		first := f.create(s, r)
		if again := f.create(s, r); again.Id != first.Id {
			t.Error(again)
		}
		f.Time.Advance(5 * time.Second)
		if again := f.create(s, r); again.Id != first.Id || again.State != "done" {
			t.Errorf("after its end: %v", again)
		}
		r.Where = "lambda=pay"
		if _, err := s.CreateJob(f.Ctx, r); !errors.Is(err, api.ErrExists) {
			t.Error(err)
		}
	})
}

func TestOldJobsGo(t *testing.T) {
	run(t, func(f *fixture) {
		s := f.server()
		for range 3 {
			f.create(s, &kinesinv1.CreateJobRequest{Action: "cancel", All: true})
			f.Time.Advance(5 * time.Second)
		}
		f.Time.Advance(job.KeptFor - time.Hour)
		if all, _ := s.ListJobs(f.Ctx, &kinesinv1.ListJobsRequest{}); len(all.Jobs) != 3 {
			t.Errorf("%d jobs", len(all.Jobs))
		}
		f.Time.Advance(3 * time.Hour)
		if all, _ := s.ListJobs(f.Ctx, &kinesinv1.ListJobsRequest{}); len(all.Jobs) != 0 {
			t.Errorf("%d jobs", len(all.Jobs))
		}
	})
}
