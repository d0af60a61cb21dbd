package cli_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/cmd/kinesin/cli"
	"github.com/kinesin-io/kinesin/internal/runtest"
)

func TestWatchPrintsWhatHasChanged(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.must("lambda", "create", "greet")
	var stdout, stderr runtest.Text
	stop := runtest.Start(t, func(ctx context.Context) error {
		if code := cli.Run(ctx, cli.Process{
			Args: []string{"lambda", "list", "--watch", "-o", "name"}, Env: []string{"KINESIN_SERVER=" + s.url, "PATH=" + os.Getenv("PATH")},
			Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr,
		}); code != 0 {
			return errors.New(stderr.String())
		}
		return nil
	})
	runtest.Eventually(t, time.Minute, "the first look", func() bool { return stdout.String() == "greet\n" })
	s.must("lambda", "create", "mail")
	runtest.Eventually(t, time.Minute, "a change is printed, once", func() bool { return stdout.String() == "greet\ngreet\nmail\n" })
	stop()
	if stderr.String() != "" {
		t.Errorf("it says %q", stderr.String())
	}
	s.do("gate", "get", "7", "--watch").check(t, "a first look that fails", 1, "no gate 7")
}

func TestHelpHasGroupsAndTheConnectionApart(t *testing.T) {
	t.Parallel()
	s := &site{t: t}
	if help := s.must("--help"); !strings.Contains(help, "\nTasks:\n  cancel ") || !strings.Contains(help, "\nLambdas and limits:\n") || strings.Contains(help, "worker-guard") {
		t.Errorf("%s", help)
	}
	own, connection, found := strings.Cut(s.must("gate", "list", "--help"), "\nConnection:\n")
	if !found || !strings.Contains(own, "--ended") || strings.Contains(own, "--server") || !strings.Contains(connection, "--server") || strings.Contains(connection, "--ended") {
		t.Errorf("%s\nConnection:\n%s", own, connection)
	}
}
