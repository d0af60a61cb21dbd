package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/sdk"
)

func (a *app) inboundCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "inbound",
		Short: "Manage the inbound queue",
		Long: `The inbound queue of an installation on AWS holds accepted tasks until a server takes them into the store. Messages that cannot
be accepted are set aside with a reason: 'kinesin inbound rejected' shows, retries and deletes them.`,
	}, a.inboundKeyCommand(), a.rejectedCommand())
}

type keyObject struct {
	Key string `json:"key"`
}

func (a *app) inboundKeyCommand() *cobra.Command {
	return a.calling(&cobra.Command{
		Use:   "key",
		Short: "Print the key for programs that send to the inbound queue",
		Long: `Prints the inbound key, a secret: with it and the permission to send to the inbound queue, a program can schedule tasks. Pass it
to programs that use package sdk/sqsinbound, for example as KINESIN_INBOUND_KEY. It does not change as long as the store exists.

Exit 1 when the server has no inbound queue.`,
		Example: `  KINESIN_INBOUND_KEY=$(kinesin inbound key) ./shop`,
		Args:    cobra.NoArgs,
	}, func(ctx context.Context, k *sdk.Client, _ []string) error {
		key, err := k.InboundKey(ctx)
		if err != nil {
			return err
		}
		return a.print(keyObject{key}, "%s", key)
	})
}
