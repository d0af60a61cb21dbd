// Command benchaws measures kinesin on DynamoDB Local and ElasticMQ: deliver lambdas beside what Dynein was
// measured at on the same emulators, and managed ones. It owns the emulators, one server process and the
// load; it prints figures and judges none.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/kinesin-io/kinesin/internal/awslocal"
)

// settings are what a run is told.
type settings struct {
	kinesin  string        // the program
	jobs     int           // of the drain
	rate     int           // jobs per second of the steady load
	duration time.Duration // of the steady load
	only     string        // deliver, managed, or empty for both
	buffered bool          // everything comes through the inbound queue that can
	profile  string        // where a CPU profile of the server goes; empty: nowhere
	jvm      string        // options of Java
}

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		_, _ = fmt.Fprintln(os.Stderr, "benchaws:", err)
		cancel()
		os.Exit(1) //nolint:gocritic // cancel was called
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var s settings
	flags := flag.NewFlagSet("benchaws", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&s.kinesin, "kinesin", "bin/kinesin", "the `program` to measure, with kinesin-bench beside it")
	flags.IntVar(&s.jobs, "jobs", 2000, "jobs due at one instant")
	flags.IntVar(&s.rate, "rate", 100, "jobs per second of the steady load")
	flags.DurationVar(&s.duration, "duration", 20*time.Second, "of the steady load")
	flags.StringVar(&s.only, "only", "", "deliver or managed (default: both)")
	flags.BoolVar(&s.buffered, "buffered", false, "through the inbound queue")
	flags.StringVar(&s.profile, "profile", "", "a `file` for a CPU profile of the server")
	flags.StringVar(&s.jvm, "jvm", "-XX:TieredStopAtLevel=4", "options of Java for the emulators, which are warmed up")
	if err := flags.Parse(args); err != nil {
		return err
	}
	emulator := awslocal.Options{HeapMiB: 512, JVM: strings.Fields(s.jvm)}
	pair, err := awslocal.Launch(ctx, emulator, emulator)
	if err != nil {
		return err
	}
	defer pair.Close()
	b := &bench{settings: s, endpoints: pair.Endpoints, out: stdout, progress: stderr}
	if err := b.start(ctx); err != nil {
		return err
	}
	defer b.stop()
	if s.only != "managed" {
		if err := b.deliver(ctx); err != nil {
			return err
		}
	}
	if s.only != "deliver" {
		return b.managed(ctx)
	}
	return nil
}
