package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/internal/testserver"
)

// testServerCommand runs a server in virtual time. The test packages of the clients start it, and move time by HTTP.
func (a *app) testServerCommand() *cobra.Command {
	c := &cobra.Command{
		Use:    "test-server",
		Short:  "Run a server in memory and in virtual time until stdin is closed (started by test packages of clients)",
		Hidden: true,
		Args:   cobra.NoArgs,
	}
	config := testserver.Config{Log: (&logFlags{level: "warn"}).logger(a.Stderr)}
	var start string
	c.Flags().StringVar(&start, "start", "", "`TIME` at which virtual time begins; the default is the present")
	c.Flags().Var(durationValue{d: &config.Stall}, "stall", "`DURATION` in real time that an advance waits without any event")
	c.RunE = does(func(ctx context.Context, _ []string) (err error) {
		if start != "" {
			if config.Start, err = parseTime(start); err != nil {
				return err
			}
		}
		return a.testServer(ctx, config)
	})
	return c
}

func (a *app) testServer(ctx context.Context, config testserver.Config) error {
	ctx, stop := untilSignal(ctx)
	defer stop()
	s, err := testserver.New(ctx, config)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Stdout, "{\"url\":%q}\n", s.URL())
	go func() {
		defer stop()
		_, _ = io.Copy(io.Discard, a.Stdin) // until whoever started this has ended
	}()
	return s.Run(ctx)
}
