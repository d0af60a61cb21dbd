package kube_test

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kinesin-io/kinesin/partition"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/test/checker"
	"github.com/kinesin-io/kinesin/test/harness"
	"github.com/kinesin-io/kinesin/test/kubelet"
)

// bounds: on a busy machine a result takes its time to be acknowledged, and a claim is some requests old when
// it starts.
var bounds = checker.Options{Settle: time.Second, Ahead: time.Second, Lease: 11 * time.Second}

// How late a task may be fired because its partition changed hands.
const (
	plannedMax   = 100 * time.Millisecond
	unplannedMax = 10 * time.Second
)

// change is something that moved partitions.
type change struct {
	name     string
	from, to time.Time
	bar      time.Duration
}

// during writes down that partitions moved, from now until it is over.
func (r *rig) during(name string, bar time.Duration, what func()) {
	r.T.Helper()
	began := time.Now()
	what()
	r.changes = append(r.changes, change{name, began, time.Now(), bar})
	harness.Figure(r.T, name+"_took", time.Since(began))
}

// A task that is due in less than 10 s goes straight to its queue. This one is fired by the pods, and due by
// then when they look ahead.
const (
	dueAfter  = 11 * time.Second
	dueWithin = 3 * time.Second
)

// begin starts the load that all runs are under, some tasks a second for each partition, and returns once
// they are due.
func (r *rig) begin() *harness.Load {
	r.T.Helper()
	l := r.Load(harness.LoadOptions{CallEvery: 60 * time.Millisecond, TasksPerCallMax: 5, DueAfter: dueAfter, DueWithin: dueWithin})
	time.Sleep(dueAfter + dueWithin)
	return l
}

// finish waits until all tasks have ended, and judges the run.
func (r *rig) finish(name string, acked []sdk.ID) {
	r.T.Helper()
	infos := r.Finish(acked)
	harness.Figure(r.T, name+"_acked", checker.Summarize(r.History.Events()).Acked)
	harness.Figure(r.T, name+"_repeated", r.History.Repeated())
	r.judgeLateness(name, infos)
}

// judgeLateness looks at how long after they were due tasks were fired: in calm times, and while partitions
// moved.
func (r *rig) judgeLateness(name string, infos []sdk.TaskInfo) {
	r.T.Helper()
	var all, calm []firing
	for i := range infos {
		// Those that failed were fired again since, and who was cancelled may never have been.
		if infos[i].Attempt == 1 && !infos[i].Enqueued.IsZero() {
			all = append(all, r.firing(&infos[i]))
		}
	}
	moves := r.moves(all)
	during := make([][]firing, len(r.changes))
	for _, f := range all {
		n := -1 // the last of those that it may be of
		for i, c := range r.changes {
			if f.due.After(c.from.Add(-besides)) && f.due.Before(c.to.Add(moveMin)) {
				n = i
			}
		}
		if n < 0 {
			calm = append(calm, f)
		} else {
			during[n] = append(during[n], f)
		}
	}
	r.lateness(name+"_calm", calm)
	for i, c := range r.changes {
		r.lateness(name+"_"+c.name, during[i])
		r.judgeGaps(name+"_"+c.name, r.gaps(during[i], moves, c.bar), c.bar)
	}
	r.showLatest(infos)
}

// started is when a task began, or was fired if it has not.
func started(t *sdk.TaskInfo) time.Time {
	if t.Started.IsZero() {
		return t.Enqueued
	}
	return t.Started
}

// showLatest shows the tasks that were fired last after they were due.
func (r *rig) showLatest(infos []sdk.TaskInfo) {
	r.T.Helper()
	const shown, late = 5, time.Second
	latest := slices.DeleteFunc(slices.Clone(infos), func(t sdk.TaskInfo) bool { return t.Attempt != 1 })
	slices.SortFunc(latest, func(a, b sdk.TaskInfo) int { return cmp.Compare(started(&b).Sub(b.Due), started(&a).Sub(a.Due)) })
	for i := range latest[:min(shown, len(latest))] {
		if t := &latest[i]; started(t).Sub(t.Due) > late {
			const clock = "15:04:05.000"
			r.T.Logf("task %s: created %s, due %s, enqueued %s, started %s, %d attempts", t.ID, t.Created.Format(clock), t.Due.Format(clock),
				t.Enqueued.Format(clock), t.Started.Format(clock), t.Attempt)
		}
	}
}

// fired is when a task was put on its queue for the first time, or a moment after: of later times Enqueued
// tells.
func fired(t *sdk.TaskInfo) time.Time {
	if !t.Started.IsZero() && t.Started.Before(t.Enqueued) {
		return t.Started
	}
	return t.Enqueued
}

func (r *rig) lateness(name string, all []firing) {
	r.T.Helper()
	if len(all) == 0 {
		return
	}
	harness.Figure(r.T, name+"_fired", len(all))
	late := make([]time.Duration, len(all))
	for i := range all {
		late[i] = all[i].late
	}
	harness.Quantiles(r.T, name+"_late", late)
}

// shares waits until the partitions are shared out among the pods that are not terminating.
func (r *rig) shares(name string) {
	r.T.Helper()
	r.sharedAmong(name, r.pods())
}

// sharedAmong waits until each partition is owned by one of the pods, and none owns more than a fair share
// and a quarter.
func (r *rig) sharedAmong(name string, pods []*kubelet.Pod) {
	r.T.Helper()
	var last []string
	r.eventually(shareMax, func() bool {
		sum, fair := 0, true
		last = last[:0]
		for _, p := range pods {
			n, err := metric(r.T.Context(), p, "kinesin_partitions_owned")
			if err != nil {
				last = append(last, err.Error())
				return false
			}
			sum += int(n)
			fair = fair && int(n) <= partition.LoadMax(len(pods), partitions)
			last = append(last, strconv.Itoa(int(n)))
		}
		return sum == partitions && fair
	}, func() string { return fmt.Sprintf("%d partitions shared out, fairly: %v", partitions, last) })
	harness.Figure(r.T, name+"_share", strings.Join(last, "/"))
}

// shareMax is how long after the last change it may take until everybody knows of it: what a silent row may
// take, and the look at it.
const shareMax = unplannedMax + 2*time.Second

// metric is a gauge or counter of a pod, the sum of its series.
func metric(ctx context.Context, p *kubelet.Pod, name string) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL()+"/metrics", http.NoBody)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+authToken)
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("metrics of %s: %s", p.Name, resp.Status)
	}
	sum, found := 0.0, false
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		line := lines.Text()
		series, value, _ := strings.Cut(line, " ")
		if base, _, _ := strings.Cut(series, "{"); base != name {
			continue
		}
		n, err := strconv.ParseFloat(value[strings.LastIndexByte(value, ' ')+1:], 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", line, err)
		}
		sum, found = sum+n, true
	}
	if err := lines.Err(); err != nil || !found {
		return 0, fmt.Errorf("metrics of %s have no %s: %w", p.Name, name, err)
	}
	return sum, nil
}
