// Command mutants breaks the code in each of the ways that test/mutants lists and checks that the tests which
// the mutant names fail. It exits with 1 when one survives, no longer applies or does not compile.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kinesin-io/kinesin/test/mutants"
)

const usage = `usage: mutants [flags]

Runs in the root of the repository. Breaks the code by one mutant of test/mutants at a time, in an overlay, and runs
the tests that the mutant names: they have to fail.

`

// quickMax is the longest time of the tests of a mutant that counts as caught soon.
const quickMax = 10 * time.Second

type options struct {
	dir      string
	only     *regexp.Regexp
	shard    int
	shards   int
	check    bool
	parallel int
	timeout  time.Duration
}

func main() { os.Exit(status(run(os.Args[1:], os.Stdout, os.Stderr), os.Stderr)) }

// errFailed says that what failed was printed.
var errFailed = errors.New("not every mutant is caught")

func status(err error, stderr io.Writer) int {
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return 0
	case !errors.Is(err, errFailed):
		_, _ = fmt.Fprintln(stderr, "mutants:", err)
	}
	return 1
}

func run(args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	all, err := mutants.Load(o.dir)
	if err != nil {
		return err
	}
	chosen := o.choose(all)
	if len(chosen) == 0 {
		return fmt.Errorf("none of %d mutants was asked for", len(all))
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	s := &summary{out: stdout}
	if o.check {
		checkAll(root, chosen, s)
	} else {
		runAll(ctx, &mutants.Runner{Root: root, Timeout: o.timeout}, chosen, o.parallel, s)
	}
	return s.end(o.check)
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { _, _ = fmt.Fprint(stderr, usage); flags.PrintDefaults() }
	flags.StringVar(&o.dir, "dir", filepath.Join("test", "mutants"), "`folder` of the mutants")
	only := flags.String("only", "", "only mutants whose names match `regexp`")
	shard := flags.String("shard", "1/1", "only every n-th mutant, such as `1/4`, 2/4, 3/4 and 4/4")
	flags.BoolVar(&o.check, "check", false, "only check that every mutant applies and parses")
	flags.IntVar(&o.parallel, "parallel", runtime.GOMAXPROCS(0), "how many run at once")
	flags.DurationVar(&o.timeout, "timeout", time.Minute, "how long the tests of one package may take with a mutant")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	var err error
	if o.only, err = regexp.Compile(*only); err != nil {
		return o, fmt.Errorf("-only: %w", err)
	}
	if n, err := fmt.Sscanf(*shard, "%d/%d", &o.shard, &o.shards); n != 2 || err != nil || o.shard < 1 || o.shard > o.shards {
		return o, fmt.Errorf("-shard %s: want i/n with i from 1 to n", *shard)
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("argument %q: want flags only", flags.Arg(0))
	case o.parallel < 1:
		return o, fmt.Errorf("-parallel %d: want at least 1", o.parallel)
	case o.timeout <= 0:
		return o, fmt.Errorf("-timeout %s: want more than 0", o.timeout)
	}
	return o, nil
}

func (o *options) choose(all []mutants.Mutant) []mutants.Mutant {
	var chosen []mutants.Mutant
	for i := range all {
		if o.only.MatchString(all[i].Name) && i%o.shards == o.shard-1 {
			chosen = append(chosen, all[i])
		}
	}
	// Mutants of one package are compiled one after another, from a warm cache.
	slices.SortStableFunc(chosen, func(a, b mutants.Mutant) int { return cmp.Compare(a.Test.String(), b.Test.String()) })
	return chosen
}

func checkAll(root string, chosen []mutants.Mutant, s *summary) {
	for i := range chosen {
		s.checked(&chosen[i], chosen[i].Check(root))
	}
}

// runAll runs the tests of the mutants without them, once each, and then with them.
func runAll(ctx context.Context, r *mutants.Runner, chosen []mutants.Mutant, parallel int, s *summary) {
	var group errgroup.Group
	group.SetLimit(parallel)
	for _, tests := range byPackages(chosen) {
		group.Go(func() error {
			for _, err := range r.Baseline(ctx, tests) {
				s.baseline(err)
			}
			return nil
		})
	}
	for i := range chosen {
		m := &chosen[i]
		group.Go(func() error {
			s.ran(m, r.Run(ctx, m))
			return nil
		})
	}
	_ = group.Wait() // nobody returns an error
}

// byPackages returns the tests of the mutants, each once, with those that are compiled together in one list.
func byPackages(chosen []mutants.Mutant) map[string][]mutants.Test {
	lists, seen := map[string][]mutants.Test{}, map[string]bool{}
	for i := range chosen {
		t := chosen[i].Test
		if key := fmt.Sprint(t.Packages, t.Race); !seen[t.String()] {
			lists[key], seen[t.String()] = append(lists[key], t), true
		}
	}
	return lists
}
