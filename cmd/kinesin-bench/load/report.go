package load

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Report is the result of a run. Lateness is start − due, on one clock; for Immediate, due is the time just
// before the call.
type Report struct {
	Kind         Kind    `json:"kind"`
	Tasks        int     `json:"tasks"`
	Workers      int     `json:"workers"`
	PayloadBytes int     `json:"payload_bytes"`
	Seconds      float64 `json:"seconds"` // of the phase that Rate counts
	Rate         float64 `json:"rate"`    // tasks per second

	// How late tasks started; of a load without workers how long its calls took.
	LatenessP50 float64 `json:"lateness_p50_ms"`
	LatenessP95 float64 `json:"lateness_p95_ms"`
	LatenessP99 float64 `json:"lateness_p99_ms"`
	LatenessMax float64 `json:"lateness_max_ms"`

	// CPU-seconds per 1,000 tasks while they ran; for Insert while they were inserted.
	CPUServer float64 `json:"server_cpu_seconds_per_1000"`
	CPUClient float64 `json:"client_cpu_seconds_per_1000"`
	CPU       float64 `json:"cpu_seconds_per_1000"`
	RSS       float64 `json:"rss_bytes"` // of the server, at the end

	// The insertion before the run, if any.
	InsertSeconds float64 `json:"insert_seconds"`
	InsertRate    float64 `json:"insert_rate"`
	InsertCPU     float64 `json:"insert_cpu_seconds_per_1000"`

	// The creation of the lambdas of Lambdas.
	CreateRate float64 `json:"create_rate,omitempty"`
	CreateCPU  float64 `json:"create_server_cpu_seconds_per_1000,omitempty"`

	// Of Change and Count: the calls by what they do.
	Calls []Calls `json:"calls,omitempty"`

	// Of Sets: the count of all tasks by their due times, and the jobs.
	CountSeconds float64     `json:"count_seconds,omitempty"`
	Sets         []SetChange `json:"sets,omitempty"`
	OthersAlone  *Others     `json:"others_alone,omitempty"` // how another lambda fares without a job

	// Pages of the console that were open, what they were sent, and how many ended by themselves.
	Pages      int   `json:"pages,omitempty"`
	PageEvents int64 `json:"page_events,omitempty"`
	PagesLost  int64 `json:"pages_lost,omitempty"`

	Lost      int `json:"lost"`      // accepted and never started
	Duplicate int `json:"duplicate"` // starts beyond the first of each task
	Early     int `json:"early"`     // starts before the due time
}

// phase is a period and the CPU time used in it.
type phase struct {
	from, to       time.Time
	server, client time.Duration
}

func (p phase) seconds() float64 { return p.to.Sub(p.from).Seconds() }

// begin reads the CPU times; finish replaces them by what was used since.
func (r *run) begin(ctx context.Context) (phase, error) {
	server, err := r.cpu(ctx)
	return phase{server: server, client: ownCPU()}, err
}

func (r *run) finish(ctx context.Context, p phase) (phase, error) {
	server, err := r.cpu(ctx)
	p.server, p.client = server-p.server, ownCPU()-p.client
	return p, err
}

func (r *run) report(p phase) Report {
	o := Report{Kind: r.Kind, Tasks: r.Tasks, Workers: r.Slots, PayloadBytes: r.PayloadBytes, Seconds: p.seconds()}
	o.Rate = perSecond(r.counted(), p.seconds())
	o.CPUServer, o.CPUClient = perThousand(p.server, r.Tasks), perThousand(p.client, r.Tasks)
	o.CPU = o.CPUServer + o.CPUClient
	if i := r.inserted; !i.from.IsZero() {
		o.InsertSeconds, o.InsertRate, o.InsertCPU = i.seconds(), perSecond(r.Tasks, i.seconds()), perThousand(i.server+i.client, r.Tasks)
	}
	if created := r.lambdas() - 1; created > 0 {
		o.CreateRate, o.CreateCPU = perSecond(created, r.created.seconds()), perThousand(r.created.server, created)
	}
	if !r.Kind.HasWorkers() {
		o.Workers, o.Lost = 0, r.Tasks-r.accepted
		if r.Kind == Insert {
			o.setPercentiles(r.insertCalls)
		}
		return o
	}
	o.setPercentiles(r.seen.lateness())
	o.Lost = r.accepted - (r.Tasks - r.counted()) - int(r.seen.started.Load())
	o.Duplicate, o.Early = int(r.seen.duplicate.Load()), int(r.seen.early.Load())
	if r.open != nil {
		o.Pages, o.PageEvents, o.PagesLost = r.Pages, r.open.events.Load(), r.open.lost.Load()
	}
	return o
}

// setPercentiles sets those of lateness, or of how long calls took, in microseconds, which it sorts.
func (o *Report) setPercentiles(of []int64) {
	slices.Sort(of)
	o.LatenessP50, o.LatenessP95, o.LatenessP99, o.LatenessMax = percentile(of, .50), percentile(of, .95), percentile(of, .99), percentile(of, 1)
}

// HasWorkers reports whether the tasks of a load are to start.
func (k Kind) HasWorkers() bool { return k != Insert && k != Sets && k != Change && k != Count }

// percentile returns the smallest value that at least that share of the values do not exceed, in
// milliseconds. The values are sorted microseconds.
func percentile(sorted []int64, share float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	i := int(share*float64(len(sorted))+0.999999) - 1
	return float64(sorted[max(0, min(i, len(sorted)-1))]) / 1000
}

func perSecond(n int, seconds float64) float64 {
	if seconds <= 0 {
		return 0
	}
	return float64(n) / seconds
}

func perThousand(used time.Duration, tasks int) float64 {
	return used.Seconds() * 1000 / float64(tasks)
}

// Print writes the report for people.
func (o *Report) Print(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s: %d tasks in %.3f s, %.0f/s\n", o.Kind, o.Tasks, o.Seconds, o.Rate)
	if err == nil && o.Kind == Insert {
		_, err = fmt.Fprintf(w, "ms of a call: p50 %.3f, p99 %.3f\n", o.LatenessP50, o.LatenessP99)
	}
	if err == nil && o.Kind.HasWorkers() {
		_, err = fmt.Fprintf(w, "lateness ms: p50 %.3f, p95 %.3f, p99 %.3f, max %.3f\n", o.LatenessP50, o.LatenessP95, o.LatenessP99, o.LatenessMax)
	}
	if err == nil {
		_, err = fmt.Fprintf(w, "CPU-seconds per 1,000: server %.4f, client and worker %.4f, together %.4f\n", o.CPUServer, o.CPUClient, o.CPU)
	}
	if err == nil && o.InsertSeconds > 0 && o.Kind != Insert && o.Kind != Sets {
		_, err = fmt.Fprintf(w, "inserted before: in %.3f s, %.0f/s, CPU-seconds per 1,000 %.4f\n", o.InsertSeconds, o.InsertRate, o.InsertCPU)
	}
	if err == nil && o.Pages > 0 {
		_, err = fmt.Fprintf(w, "pages of the console: %d open, %d states sent, %d ended\n", o.Pages, o.PageEvents, o.PagesLost)
	}
	if err == nil && o.Kind == Sets {
		_, err = fmt.Fprintf(w, "counted in %.3f s\n", o.CountSeconds)
	}
	if err == nil && o.OthersAlone != nil {
		err = o.OthersAlone.print(w, "another lambda without a job")
	}
	if err == nil && o.CreateRate > 0 {
		_, err = fmt.Fprintf(w, "lambdas created: %.0f/s, CPU-seconds of the server per 1,000 %.4f\n", o.CreateRate, o.CreateCPU)
	}
	for _, c := range o.Calls {
		if err == nil {
			_, err = fmt.Fprintf(w, "%s: %d calls, %.0f/s, ms of a call: p50 %.3f, p99 %.3f, CPU-seconds of the server per 1,000 %.4f\n",
				c.Name, c.Calls, c.Rate, c.P50, c.P99, c.CPU)
		}
	}
	for _, c := range o.Sets {
		if err == nil {
			err = c.print(w)
		}
	}
	if err == nil {
		_, err = fmt.Fprintf(w, "server: %.0f MB resident; lost %d, duplicate %d, early %d\n", o.RSS/1e6, o.Lost, o.Duplicate, o.Early)
	}
	return err
}

func (c *SetChange) print(w io.Writer) error {
	what := strings.TrimSpace(string(c.Action) + " " + c.Way)
	_, err := fmt.Fprintf(w, "%s: %d tasks in %.3f s, %.0f/s, %d refused, CPU-seconds per 1,000 of the server %.4f, at most %.0f MB in its heap\n",
		what, c.Tasks, c.Seconds, c.Rate, c.Refused, c.CPU, c.HeapMax)
	if err == nil && c.Others != nil {
		err = c.Others.print(w, "  another lambda meanwhile")
	}
	return err
}

func (o *Others) print(w io.Writer, what string) error {
	_, err := fmt.Fprintf(w, "%s: %d tasks, lateness ms: p50 %.1f, p99 %.1f, max %.1f", what, o.Tasks, o.LatenessP50, o.LatenessP99, o.LatenessMax)
	if err == nil && o.BoundP99 > 0 {
		_, err = fmt.Fprintf(w, "; bound of p99 %.1f, within: %v", o.BoundP99, o.Within)
	}
	if err == nil && o.Lost > 0 {
		_, err = fmt.Fprintf(w, "; lost %d", o.Lost)
	}
	if err == nil {
		_, err = fmt.Fprintln(w)
	}
	return err
}
