package inbound

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

func TestWhatWaitsForAQuotaSaysSo(t *testing.T) {
	const now = task.Instant(1_700_000_000_000_000)
	limited := task.Partition{Lambda: 7, Priority: 1}
	isLimited := func(p task.Partition) bool { return p == limited }
	in := &Inbound{Config: Config{StartQuota: func(p task.Partition) string { return map[task.Partition]string{limited: "starts"}[p] }, QueueFull: isLimited}}
	for name, c := range map[string]struct {
		t    task.Task
		says bool
	}{
		"due":                 {task.Task{Partition: limited, State: task.Scheduled, Wake: now}, true},
		"a retry that is due": {task.Task{Partition: limited, State: task.RetriableFailure, Wake: now - 1}, true},
		"not due":             {task.Task{Partition: limited, State: task.Scheduled, Wake: now + 1}, false},
		"in its queue":        {task.Task{Partition: limited, State: task.Enqueued, Wake: now}, false},
		"ended":               {task.Task{Partition: limited, State: task.Success, Wake: now}, false},
		"without a quota":     {task.Task{Partition: task.Partition{Lambda: 7}, State: task.Scheduled, Wake: now}, false},
	} {
		if w := in.quotaWait(&c.t, now); (w != nil) != c.says || c.says && (w.Reason != "quota" || !strings.HasPrefix(w.Text, "the quota of starts of its lambda")) {
			t.Errorf("%s: %v", name, w)
		}
		if w := in.queueWait(&c.t, now); (w != nil) != c.says || c.says && (w.Reason != "queue full" || w.Text == "") {
			t.Errorf("%s, of the queue: %v", name, w)
		}
	}
}

func TestWhatWaitsForTheRetryBudgetSaysSo(t *testing.T) {
	now := clock.Real().Now()
	in := &Inbound{Config: Config{Intake: intake.New(intake.Config{Clock: clock.Real()})}}
	l := &catalog.Entry{Lambda: task.Lambda{Name: "mail", RetryShare: 0.2}}
	for name, c := range map[string]struct {
		t    task.Task
		says bool
	}{
		"a retry whose backoff is over": {task.Task{State: task.RetriableFailure, Wake: now.Add(-time.Second)}, true},
		"a retry that backs off":        {task.Task{State: task.RetriableFailure, Wake: now.Add(time.Minute)}, false},
		"a first start":                 {task.Task{State: task.Scheduled, Wake: now.Add(-time.Second)}, false},
	} {
		if w := in.waitsFor(&c.t, l); (w != nil) != c.says || c.says && (w.Reason != "retry budget" || w.Text == "") {
			t.Errorf("%s: %v", name, w)
		}
	}
	l.RetryShare = 0
	if w := in.waitsFor(&task.Task{State: task.RetriableFailure, Wake: now.Add(-time.Second)}, l); w != nil {
		t.Errorf("without a share: %v", w)
	}
}

// admits takes a number of tasks in.
type admits int

func (a *admits) Take(_ uint32, _ string, refused int) (after time.Duration, ok bool) {
	if *a > 0 {
		*a--
		return 0, true
	}
	return time.Duration(refused+1) * time.Second, false
}

func TestItemsBeyondTheQuotaAreRefusedOneByOne(t *testing.T) {
	two := admits(2)
	q := callQuota{in: &Inbound{Config: Config{Admission: &two}}}
	l := &catalog.Entry{Lambda: task.Lambda{Name: "mail"}}
	for i, after := range []time.Duration{0, 0, time.Second, 2 * time.Second} {
		err := q.take(l)
		refused, is := errors.AsType[*api.Error](err)
		if is != (after > 0) || is && (refused.RetryAfter != after || !errors.Is(err, api.ErrThrottled) || !strings.Contains(err.Error(), "lambda mail")) {
			t.Errorf("item %d: %v", i, err)
		}
	}
}
