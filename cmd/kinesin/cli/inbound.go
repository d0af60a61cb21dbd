package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/sdk"
)

func (a *app) inboundCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "inbound",
		Short: "Manage the inbound queue",
		Long: `The inbound queue of an installation on AWS holds accepted tasks until a server takes them into the store. What cannot be
accepted is set aside with a reason; docs/how-to/aws.md tells more.`,
	}, a.inboundKeyCommand(), a.senderCommand(), a.rejectedCommand())
}

func (a *app) inboundKeyCommand() *cobra.Command {
	var sender string
	var lambdas []string
	c := &cobra.Command{
		Use:   "key [--sender NAME [--lambda PATTERN …]]",
		Short: "Print a key for programs that send to the inbound queue",
		Long: `Prints the key with which programs send to the inbound queue (package sdk/sqsinbound), a secret: for all lambdas, or with
--sender for the lambdas of a sender. It changes when the key ring is rotated; the old one is taken for 45 days more.

Exit 1 when the server has no inbound queue, and when the sender was revoked or has other lambdas.`,
		Example: `  KINESIN_INBOUND_KEY=$(kinesin inbound key) ./shop
  kinesin inbound key --sender shop --lambda 'mail-*' --lambda invoice`,
		Args: cobra.NoArgs,
	}
	c.Flags().StringVar(&sender, "sender", "", "`NAME` of the sender; empty: the key of all lambdas")
	c.Flags().StringArrayVar(&lambdas, "lambda", nil, "`PATTERN` of the lambdas of a new sender: a name in which * stands for any characters; may be repeated")
	return a.calling(c, func(ctx context.Context, k *sdk.Client, _ []string) error {
		if sender == "" && (len(lambdas) > 0 || c.Flags().Changed("sender")) {
			return usagef("--lambda is for the key of a sender: name it with --sender")
		}
		c := over(k)
		if sender == "" {
			r, err := ask(ctx, c, "inbound key", c.Inbound.Key, &kinesinv1.KeyRequest{})
			if err != nil {
				return err
			}
			return a.print(r, "%s", r.GetKey())
		}
		r, err := ask(ctx, c, "inbound key", c.Keyring.AddSender, &kinesinv1.AddSenderRequest{Name: sender, Lambdas: lambdas})
		if err != nil {
			return err
		}
		return a.print(r, "%s", r.GetKey())
	})
}

func (a *app) senderCommand() *cobra.Command {
	n := a.senders()
	return group(&cobra.Command{
		Use:   "sender",
		Short: "List and revoke senders that have an inbound key of their own",
		Long:  `Senders are made by 'kinesin inbound key --sender NAME --lambda PATTERN'.`,
	},
		n.listCommand(a, &cobra.Command{Short: "List all senders, without their keys"}, nil),
		n.action(a, &cobra.Command{
			Use:   "revoke",
			Short: "End the inbound key of a sender for good",
			Long: `Ends the inbound key of a sender for good, within 10 seconds. Tasks that were taken before run. The name cannot be used
again. Exit 1 when there is no such sender.`,
		}, func(ctx context.Context, c *calls, name string) (*kinesinv1.InboundSender, error) {
			r, err := ask(ctx, c, "revoke sender", c.Keyring.RevokeSender, &kinesinv1.RevokeSenderRequest{Name: name})
			return r.GetSender(), err
		}))
}
