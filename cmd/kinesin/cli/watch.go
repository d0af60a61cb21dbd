package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/sdk"
)

const watchEvery = 2 * time.Second

// clearScreen has a terminal begin at its top again.
const clearScreen = "\x1b[H\x1b[2J"

// watching completes a command that calls a server and only looks, with the flag --watch.
func (a *app) watching(c *cobra.Command, act call) *cobra.Command {
	watch := watchFlag(c.Flags())
	return a.calling(c, func(ctx context.Context, k *sdk.Client, args []string) error {
		if !*watch {
			return act(ctx, k, args)
		}
		return a.watch(ctx, func(ctx context.Context) error { return act(ctx, k, args) })
	})
}

func watchFlag(flags *pflag.FlagSet) *bool {
	return flags.BoolP("watch", "w", false, "look again every 2 s, and print what has changed, until Ctrl-C")
}

// watch looks again and again, and prints what a look prints whenever that is another text: on a terminal instead of
// the text before. It ends with ctx, and with an error of the first look.
func (a *app) watch(ctx context.Context, look func(context.Context) error) error {
	ctx, stop := untilSignal(ctx)
	defer stop()
	out, notes := a.Stdout, a.Stderr
	defer func() { a.Stdout, a.Stderr = out, notes }()
	before := ""
	for looks := 0; ; looks++ {
		var text, said bytes.Buffer
		a.Stdout, a.Stderr = &text, &said
		lookErr := look(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if lookErr != nil && looks > 0 {
			a.note("%v", lookErr) // the next look may succeed
			lookErr = nil
		}
		if now := text.String() + said.String(); now != before {
			if isTerminal(a.stdout) && lookErr == nil {
				if _, err := io.WriteString(a.stdout, clearScreen); err != nil {
					return err
				}
			}
			_, outErr := text.WriteTo(out)
			_, noteErr := said.WriteTo(notes)
			if err := errors.Join(outErr, noteErr); err != nil {
				return err
			}
			before = now
		}
		if lookErr != nil {
			return lookErr
		}
		if clock.Sleep(ctx, clock.Real(), watchEvery) != nil {
			return nil // whoever watches ends it
		}
	}
}
