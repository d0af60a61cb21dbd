package e2e_test

import (
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/test/harness"
)

// Benchmarks count what they ran, exactly, on the server that is given.
func TestBench(t *testing.T) {
	s := start(t)
	for _, line := range []string{
		"insert -n 3000 --batch 500",
		"wall -n 500 --workers 10 --ahead 500ms",
		"steady --rate 200 --duration 1s --ahead 500ms",
		"immediate -n 50 --workers 2",
		"crons -n 50 --workers 10 --ahead 8s",
		"steady --tasks 200 --ahead 500ms",
		"lambdas -n 500 --lambdas 5 --workers 10 --ahead 500ms",
		"keys -n 200 --keys 20 --workers 10 --ahead 500ms",
		"quota -n 200 --concurrency 20 --workers 10 --ahead 500ms",
		"procs -n 200 --processes 2 --workers 4 --ahead 500ms",
		"change -n 200 --batch 100",
		"count -n 500",
	} {
		var got map[string]any
		harness.Bench(t, []string{"KINESIN_SERVER=" + s.URL}, strings.Fields(line+" -o json")...).JSON(t, &got)
		if got["lost"] != 0. || got["duplicate"] != 0. || got["early"] != 0. || got["rate"] == 0. {
			t.Errorf("%s: %v", line, got)
		}
		for _, field := range []string{
			"tasks", "seconds", "rate", "lateness_p50_ms", "lateness_p95_ms", "lateness_p99_ms", "lateness_max_ms",
			"server_cpu_seconds_per_1000", "client_cpu_seconds_per_1000", "rss_bytes", "cpu_seconds_per_1000",
		} {
			if _, isNumber := got[field].(float64); !isNumber {
				t.Errorf("%s: %s is %v", line, field, got[field])
			}
		}
	}
}

// A lambda is measured beside a neighbour whose tasks kill their worker, on servers that the benchmark
// starts.
func TestBenchIsolation(t *testing.T) {
	t.Parallel()
	var rows []struct {
		Case                   string
		Tasks                  int
		Lost, Duplicate, Early int
		BoundP99               float64 `json:"bound_p99_ms"`
	}
	r := harness.Bench(t, nil, "isolation", "--data", t.TempDir(), "--cases", "poison", "-n", "20", "--rate", "50", "--duration", "1s", "-o", "json")
	r.JSON(t, &rows)
	if len(rows) != 2 || rows[0].Case != "solo" || rows[1].Case != "poison" {
		t.Fatalf("rows %+v", rows)
	}
	for _, row := range rows {
		if row.Tasks != 50 || row.Lost+row.Duplicate+row.Early != 0 || row.BoundP99 <= 5 {
			t.Errorf("row %+v", row)
		}
	}
}

// Brakes are measured on servers that the benchmark starts: shares by weight, a pause and its resume, a drop.
func TestBenchBrakes(t *testing.T) {
	t.Parallel()
	var figures []struct {
		Case, Figure string
		Value        float64
	}
	r := harness.Bench(t, nil, "brakes", "--data", t.TempDir(), "--cases", "high-behind-low,weights,pause,drop", "-n", "4000", "--pace", "500", "--duration", "6s", "--ahead", "2s", "-o", "json")
	r.JSON(t, &figures)
	of := map[string]float64{}
	for _, f := range figures {
		of[f.Case+" "+f.Figure] = f.Value
	}
	for name, bounds := range map[string][2]float64{ // of a busy machine: the figures say how it really was
		"high-behind-low low_tasks":         {2000, 2000},
		"high-behind-low high_late_max_ms":  {0.01, 10_000},
		"weights low_per_second":            {1, 1000},
		"pause held_tasks":                  {4000, 4000},
		"pause cpu_seconds_per_1000_beside": {0, 100},
		"pause resumed_per_second":          {50, 550},
		"drop dropped_tasks":                {2000, 2000},
		"drop dropped_that_started":         {0, 0},
		"drop others_per_second":            {1, 1_000_000},
	} {
		if value, measured := of[name]; !measured || value < bounds[0] || value > bounds[1] {
			t.Errorf("%s: %v (%v), want %v", name, value, measured, bounds)
		}
	}
}
