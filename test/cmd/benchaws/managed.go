package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strconv"
	"time"

	"github.com/kinesin-io/kinesin/cmd/kinesin-bench/load"
)

// managed runs the shapes of `kinesin-bench` against the server, each with its worker in a process of its
// own.
func (b *bench) managed(ctx context.Context) error {
	shapes := []struct {
		name string
		args []string
	}{
		{"drain", []string{"wall", "-n", strconv.Itoa(b.jobs), "--ahead", (4*time.Second + time.Duration(b.jobs)*5*time.Millisecond).String()}},
		{"steady", []string{"steady", "--rate", strconv.Itoa(b.rate), "--duration", b.duration.String(), "--ahead", "20s"}},
		{"immediate", []string{"immediate", "-n", "100"}},
	}
	b.title("managed", "")
	for _, shape := range shapes {
		b.note("managed: %s", shape.name)
		before, err := b.spent(ctx)
		if err != nil {
			return err
		}
		report, err := b.kinesinBench(ctx, shape.args)
		if err != nil {
			return err
		}
		after, err := b.spent(ctx)
		if err != nil {
			return err
		}
		b.managedLines(shape.name, &report, after.since(before))
	}
	return b.flush()
}

func (b *bench) kinesinBench(ctx context.Context, args []string) (report load.Report, err error) {
	args = append(args, "--shards", "1", "--server", b.url, "-o", "json")
	c := exec.CommandContext(ctx, b.kinesin+"-bench", args...)
	c.Stderr = b.progress
	out, err := c.Output()
	if err != nil {
		return report, fmt.Errorf("kinesin-bench %v: %w", args, err)
	}
	if err := json.Unmarshal(out, &report); err != nil {
		return report, fmt.Errorf("kinesin-bench %v: %w", args, err)
	}
	return report, nil
}

func (b *bench) managedLines(name string, r *load.Report, used spent) {
	n := float64(r.Tasks)
	b.line("%s of %d tasks, tasks/s\t%.0f\t", name, r.Tasks, r.Rate)
	b.line("  lateness p50, p95, p99, ms\t%.1f, %.1f, %.1f\t", r.LatenessP50, r.LatenessP95, r.LatenessP99)
	b.line("  CPU seconds per 1,000 while they ran: server, worker\t%.3f, %.3f\t", r.CPUServer, r.CPUClient)
	b.line("  CPU seconds per 1,000 of the server, insertion included\t%.3f\t", used.cpu.Seconds()/n*1000)
	b.line("  SQS requests per 1,000\t%.0f\t", used.requests["sqs"]/n*1000)
	b.line("  DynamoDB requests and rows written per task\t%.2f, %.2f\t", used.requests["dynamodb"]/n, used.writes/n)
	b.line("  lost, early, more than once\t%d, %d, %d\t", r.Lost, r.Early, r.Duplicate)
}
