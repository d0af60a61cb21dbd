package sdktest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/sdk/sdktest"
)

// held is a Kinesin that holds tasks back, and a worker that notes when they start, since the beginning.
type held struct {
	*testing.T
	*sdktest.Kinesin

	mu      sync.Mutex
	started []string // 3m0s, in order
	running int
	most    int // at once
	fails   bool
}

// newHeld starts a Kinesin and a worker of lambda x, whose handler takes so long in virtual time.
func newHeld(t *testing.T, takes time.Duration, settings ...admin.Lambda) *held {
	t.Helper()
	t.Parallel()
	h := &held{T: t, Kinesin: sdktest.New(t, sdktest.StartAt(time.Date(2027, 1, 4, 12, 0, 0, 0, time.UTC)))}
	h.Lambda("x", settings...)
	begin := h.Now()
	w := sdk.NewWorker(h.Client())
	w.Register("x", func(ctx context.Context, _ *sdk.Task[[]byte]) error {
		h.mu.Lock()
		h.started = append(h.started, h.Now().Sub(begin).String())
		h.running++
		h.most = max(h.most, h.running)
		fails := h.fails
		h.mu.Unlock()
		defer func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.running--
		}()
		if fails {
			return errors.New("no answer")
		}
		if takes == 0 {
			return nil
		}
		return h.Sleep(ctx, takes)
	})
	h.Kinesin.Run(w)
	return h
}

func (h *held) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func (h *held) schedule(count int, in time.Duration, limitKey string) {
	h.Helper()
	for range count {
		_, err := h.Client().Schedule(h.Context(), sdk.Item{Lambda: "x", In: in, LimitKey: limitKey})
		h.must(err)
	}
}

// want compares when tasks started since the last time.
func (h *held) want(want string) {
	h.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if got := strings.Join(h.started, " "); got != want {
		h.Errorf("started at %s\nwant %s", got, want)
	}
	h.started = nil
}

func (h *held) setFails(fails bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fails = fails
}

// A gate holds tasks for as long as it likes, and time goes on.
func TestGates(t *testing.T) {
	t.Parallel()
	t.Run("pause", func(t *testing.T) {
		h := newHeld(t, 0)
		g, err := h.Admin().Gates.Create(h.Context(), admin.Gate{Action: "pause", Lambda: "x", Reason: "r"})
		h.must(err)
		h.schedule(1, 0, "")
		h.schedule(1, 10*time.Minute, "")
		h.Advance(30 * day)
		h.want("")
		_, err = h.Admin().Gates.Resume(h.Context(), g.ID, admin.GateResumeOptions{})
		h.must(err)
		h.Advance(time.Hour)
		h.want("720h0m0s 720h0m0s")
	})
	t.Run("pause until", func(t *testing.T) {
		h := newHeld(t, 0)
		_, err := h.Admin().Gates.Create(h.Context(), admin.Gate{Action: "pause", Lambda: "x", Reason: "r", Until: h.Now().Add(2 * day)})
		h.must(err)
		h.schedule(2, time.Hour, "")
		h.Advance(3 * day)
		h.want("48h0m0s 48h0m0s")
	})
	t.Run("resume at a pace", func(t *testing.T) {
		h := newHeld(t, 0)
		g, err := h.Admin().Gates.Create(h.Context(), admin.Gate{Action: "pause", Lambda: "x", Reason: "r"})
		h.must(err)
		h.schedule(20, time.Minute, "")
		h.Advance(time.Hour)
		h.want("")
		_, err = h.Admin().Gates.Resume(h.Context(), g.ID, admin.GateResumeOptions{Pace: 1})
		h.must(err)
		h.Advance(5 * time.Second)
		some := len(h.started)
		h.Advance(10 * time.Minute)
		if some < 1 || some > 8 || len(h.started) != 20 {
			t.Errorf("%d started within 5 s, and %d in all: %v", some, len(h.started), h.started)
		}
	})
	t.Run("expires while it is held", func(t *testing.T) {
		h := newHeld(t, 0, admin.Lambda{StartWithin: 10 * time.Minute})
		_, err := h.Admin().Gates.Create(h.Context(), admin.Gate{Action: "pause", Lambda: "x", Reason: "r"})
		h.must(err)
		h.schedule(1, time.Minute, "")
		begin := h.Now()
		h.Advance(day)
		all := h.Tasks("x")
		if len(all) != 1 || all[0].State != sdk.StateExpired || all[0].Ended.Sub(begin) != 11*time.Minute {
			t.Errorf("%+v", all)
		}
	})
	t.Run("drop", func(t *testing.T) {
		h := newHeld(t, 0)
		_, err := h.Admin().Gates.Create(h.Context(), admin.Gate{Action: "drop", Lambda: "x", Reason: "r"})
		h.must(err)
		h.schedule(1, time.Minute, "")
		h.Advance(time.Hour)
		h.want("")
		if all := h.Tasks("x"); len(all) != 1 || all[0].State != sdk.StateDropped {
			t.Errorf("%+v", all)
		}
	})
	t.Run("deliver", func(t *testing.T) {
		h := newHeld(t, 0)
		h.Lambda("d", admin.Lambda{Mode: admin.ModeDeliver})
		g, err := h.Admin().Gates.Create(h.Context(), admin.Gate{Action: "pause", Lambda: "d", Reason: "r"})
		h.must(err)
		_, err = h.Client().Schedule(h.Context(), sdk.Item{Lambda: "d", In: time.Minute})
		h.must(err)
		h.Advance(time.Hour)
		before := len(h.Delivered("d"))
		_, err = h.Admin().Gates.Resume(h.Context(), g.ID, admin.GateResumeOptions{})
		h.must(err)
		h.Advance(time.Hour)
		if after := len(h.Delivered("d")); before != 0 || after != 1 {
			t.Errorf("%d delivered, then %d", before, after)
		}
	})
}

// Tasks wait for their quota, and start at its rate.
func TestQuotas(t *testing.T) {
	t.Parallel()
	t.Run("rate", func(t *testing.T) {
		h := newHeld(t, 0)
		_, err := h.Admin().Quotas.Set(h.Context(), admin.Quota{Lambda: "x", Rate: 1}, admin.QuotaSetOptions{})
		h.must(err)
		h.Advance(5 * time.Second)
		h.schedule(5, 0, "")
		h.Advance(time.Minute)
		h.want("5s 6s 7s 8s 9s")
	})
	t.Run("concurrency", func(t *testing.T) {
		h := newHeld(t, 10*time.Minute)
		_, err := h.Admin().Quotas.Set(h.Context(), admin.Quota{Lambda: "x", Concurrency: 2}, admin.QuotaSetOptions{})
		h.must(err)
		h.Advance(time.Minute)
		h.schedule(6, time.Minute, "")
		h.Advance(day)
		if len(h.started) != 6 || h.most != 2 {
			t.Errorf("started at %v, %d at once", h.started, h.most)
		}
	})
	t.Run("deliver", func(t *testing.T) {
		h := newHeld(t, 0)
		h.Lambda("d", admin.Lambda{Mode: admin.ModeDeliver})
		_, err := h.Admin().Quotas.Set(h.Context(), admin.Quota{Lambda: "d", Rate: 1}, admin.QuotaSetOptions{})
		h.must(err)
		h.Advance(5 * time.Second)
		for range 5 {
			_, err := h.Client().Schedule(h.Context(), sdk.Item{Lambda: "d", In: time.Second})
			h.must(err)
		}
		h.Advance(time.Minute)
		if n := len(h.Delivered("d")); n != 5 {
			t.Errorf("%d delivered, want 5", n)
		}
	})
}

// Tasks of one limit key wait for each other.
func TestLimitsByKey(t *testing.T) {
	t.Parallel()
	t.Run("at once", func(t *testing.T) {
		h := newHeld(t, 10*time.Minute, admin.Lambda{LimitKeyConcurrency: 1})
		h.schedule(3, time.Minute, "acme")
		h.schedule(1, time.Minute, "other")
		h.Advance(day)
		slices.Sort(h.started)
		h.want("11m0s 1m0s 1m0s 21m0s")
	})
	t.Run("rate", func(t *testing.T) {
		h := newHeld(t, 0, admin.Lambda{LimitKeyRate: 1})
		h.schedule(3, time.Minute, "acme")
		h.Advance(time.Hour)
		h.want("1m0s 1m0.9s 1m1.9s") // the first two within the burst
	})
}

func (h *held) cron(c admin.Cron) {
	h.Helper()
	c.Name, c.Lambda = "c", "x"
	_, _, err := h.Admin().Crons.Create(h.Context(), c)
	h.must(err)
}

// What becomes of an occurrence while an earlier one runs, which takes three and a half minutes.
func TestOverlaps(t *testing.T) {
	t.Parallel()
	for overlap, want := range map[admin.Overlap]string{
		"skip":    "1m0s 5m0s 9m0s 13m0s",
		"queue":   "1m0s 4m30s 8m0s 11m30s 15m0s",
		"replace": "1m0s 4m30s 8m0s 11m30s 15m0s",
		"cancel":  "1m0s 2m0s 3m0s 4m0s 5m0s 6m0s 7m0s 8m0s 9m0s 10m0s 11m0s 12m0s 13m0s 14m0s 15m0s",
		"allow":   "1m0s 2m0s 3m0s 4m0s 5m0s 6m0s 7m0s 8m0s 9m0s 10m0s 11m0s 12m0s 13m0s 14m0s 15m0s",
	} {
		t.Run(string(overlap), func(t *testing.T) {
			h := newHeld(t, 3*time.Minute+30*time.Second)
			h.cron(admin.Cron{Schedule: "* * * * *", Overlap: overlap})
			h.Advance(15*time.Minute + 30*time.Second)
			// One that waits looks each second whether the one before it has ended.
			for i, at := range h.started {
				d, err := time.ParseDuration(at)
				h.must(err)
				h.started[i] = d.Truncate(30 * time.Second).String()
			}
			if overlap != "allow" && h.most > 1 {
				t.Errorf("%d ran at once", h.most)
			}
			h.want(want)
		})
	}
}

// A cron that is deleted and created again while time stands still skips no time.
func TestACronCreatedAgain(t *testing.T) {
	h := newHeld(t, 0)
	for range 3 {
		h.cron(admin.Cron{Schedule: "@every 3m"})
		h.must(h.Admin().Crons.Delete(h.Context(), "c"))
	}
	h.cron(admin.Cron{Schedule: "@every 3m"})
	h.Advance(10 * time.Minute)
	h.want("3m0s 6m0s 9m0s")
}

// Retries wait for their budget, and a breaker holds everything until a probe succeeds.
func TestBackpressure(t *testing.T) {
	t.Parallel()
	t.Run("retry budget", func(t *testing.T) {
		h := newHeld(t, 0, admin.Lambda{RetryShare: 0.01, BackoffMin: time.Second, BackoffMax: time.Second, MaxAttempts: 3})
		h.setFails(true)
		h.schedule(20, time.Minute, "")
		h.Advance(time.Hour)
		if len(h.started) != 60 {
			t.Errorf("%d starts: %v", len(h.started), h.started)
		}
	})
	t.Run("breaker", func(t *testing.T) {
		h := newHeld(t, 0, admin.Lambda{Breaker: admin.Breaker{Failures: 0.5, Window: time.Minute}, BackoffMin: time.Minute, BackoffMax: time.Minute, MaxAttempts: 100})
		h.setFails(true)
		h.schedule(50, time.Second, "")
		h.Advance(30 * time.Minute)
		failed := len(h.started)
		h.setFails(false)
		h.Advance(2 * time.Hour)
		open := 0
		for _, info := range h.Tasks("x") {
			if info.State != sdk.StateSuccess {
				open++
			}
		}
		if failed > 500 || open > 0 {
			t.Errorf("%d attempts failed while the breaker was open; %d tasks have not ended", failed, open)
		}
	})
}

// A job changes a set of tasks, at a pace if there is one.
func TestJobs(t *testing.T) {
	t.Parallel()
	for name, pace := range map[string]int{"at once": 0, "at a pace": 1} {
		t.Run(name, func(t *testing.T) {
			h := newHeld(t, 0)
			h.schedule(30, 2*time.Hour, "")
			job, err := h.Admin().Jobs.Create(h.Context(), admin.JobSpec{Action: admin.JobCancel, Where: "lambda=x", Pace: pace})
			h.must(err)
			h.Advance(10 * time.Minute)
			job, err = h.Admin().Jobs.Get(h.Context(), job.ID)
			h.must(err)
			if job.State != "done" {
				t.Errorf("%+v", job)
			}
			h.Advance(3 * time.Hour)
			h.want("")
		})
	}
}

// Tasks that start late, and those that a gate holds for longer than the objective allows, use up its budget.
func TestObjectives(t *testing.T) {
	h := newHeld(t, 0)
	_, err := h.Admin().Objectives.Set(h.Context(), admin.Objective{Lambda: "x", Within: 5 * time.Second, Percent: 50})
	h.must(err)
	want := func(started, good, waiting int64) {
		t.Helper()
		h.Advance(2 * time.Minute) // a server stores and reads counts each minute
		all, err := h.Admin().Objectives.List(h.Context(), "x")
		h.must(err)
		if len(all) != 1 || all[0].Started != started || all[0].Good != good || all[0].Waiting != waiting {
			t.Errorf("%+v\nwant %d started, %d of them in time, %d waiting", all, started, good, waiting)
		}
	}
	h.Advance(2 * time.Minute) // the objective is known
	h.schedule(6, time.Minute, "")
	want(6, 6, 0)
	g, err := h.Admin().Gates.Create(h.Context(), admin.Gate{Action: "pause", Lambda: "x", Reason: "r"})
	h.must(err)
	h.schedule(4, time.Second, "")
	want(10, 6, 4)
	_, err = h.Admin().Gates.Resume(h.Context(), g.ID, admin.GateResumeOptions{})
	h.must(err)
	want(10, 6, 0)
}
