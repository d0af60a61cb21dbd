package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/internal/dial"
	"github.com/kinesin-io/kinesin/sdk"
)

const (
	// triesInteractive is how often a command that somebody may be watching tries a call: enough for a short
	// failure, without a long wait when no server runs.
	triesInteractive = 4

	// perCallMax is how many ids a server takes in one call.
	perCallMax = 1000
)

// call is the action of a command that calls a server.
type call func(ctx context.Context, k *sdk.Client, args []string) error

// calling completes a command with the flags for the server and the output, and with its action.
func (a *app) calling(c *cobra.Command, act call) *cobra.Command {
	return a.callingWith(c, act, sdk.WithTries(triesInteractive))
}

func (a *app) callingWith(c *cobra.Command, act call, opts ...sdk.ClientOption) *cobra.Command {
	if c.Flags().Lookup("output") == nil { // chain get has one of its own
		a.outputFlag(c.Flags())
	}
	a.conn.AddTo(c.Flags())
	c.RunE = does(func(ctx context.Context, args []string) error {
		return a.withClient(func(k *sdk.Client) error { return act(ctx, k, args) }, opts...)
	})
	return c
}

// client makes a client of the servers that --server names. It connects at the first call.
func (a *app) client(opts ...sdk.ClientOption) (*sdk.Client, error) {
	c, err := a.conn.Client(opts...)
	if err != nil {
		return nil, usagef("%v", err)
	}
	return c, nil
}

// withClient calls f with a client and explains its error. On a terminal it shows that it waits.
func (a *app) withClient(f func(*sdk.Client) error, opts ...sdk.ClientOption) error {
	c, err := a.client(opts...)
	if err != nil {
		return err
	}
	defer c.Close()
	for _, text := range a.conn.Loose() {
		a.note("%s", text)
	}
	defer a.waiting("waiting for %s", a.conn.Server)()
	return a.conn.Explain(f(c))
}

// connections makes HTTP clients for what the SDK does not offer. Call client or withClient before: they
// check the settings.
func (a *app) connections() (dial.Clients, error) {
	c, err := a.conn.Direct()
	if err != nil {
		return c, usagef("%v", err)
	}
	return c, nil
}

// inParts calls f for parts of at most perCallMax ids and joins the results.
func inParts[R any](texts []string, f func(ids []sdk.ID) ([]R, error)) ([]R, error) {
	ids := make([]sdk.ID, len(texts))
	for i, text := range texts {
		ids[i] = sdk.ID(text)
	}
	var all []R
	for len(ids) > 0 {
		n := min(len(ids), perCallMax)
		some, err := f(ids[:n])
		if err != nil {
			return all, err
		}
		all, ids = append(all, some...), ids[n:]
	}
	return all, nil
}
