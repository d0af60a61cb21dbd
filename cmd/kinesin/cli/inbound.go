package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/sdk"
)

func (a *app) inboundCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "inbound",
		Short: "Look after the inbound queue",
		Long: `The inbound queue of an installation on AWS holds accepted tasks until a server takes them to the store. What can never be taken is
set aside with its reason: 'kinesin inbound rejected' shows it, retries it and deletes it.`,
	}
	c.AddCommand(a.inboundKeyCommand(), a.rejectedCommand())
	group(c)
	return c
}

func (a *app) inboundKeyCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "key",
		Short: "Print the key of those who send to the inbound queue themselves",
		Long: `Prints the inbound key, a secret: whoever has it, and may send to the inbound queue, may schedule tasks. Programs that use package
sdk/sqsinbound get it, for example, as KINESIN_INBOUND_KEY. It stays the same for as long as the store does.

Exit 1 when the server has no inbound queue.`,
		Example: `  KINESIN_INBOUND_KEY=$(kinesin inbound key) ./shop`,
		Args:    cobra.NoArgs,
	}
	c.RunE = does(func(ctx context.Context, _ []string) error {
		return a.withClient(func(k *sdk.Client) error {
			key, err := k.InboundKey(ctx)
			if err != nil {
				return err
			}
			if a.json() {
				return printJSON(a.Stdout, keyObject{Key: key})
			}
			_, err = fmt.Fprintln(a.Stdout, key)
			return err
		}, sdk.WithTries(triesAtHand))
	})
	a.outputFlag(c.Flags())
	a.serverFlag(c.Flags())
	return c
}

type keyObject struct {
	Key string `json:"key"`
}
