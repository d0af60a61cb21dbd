package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/sdk"
)

func (a *app) keyringCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "keyring",
		Short: "List and rotate the keys of the installation",
		Long: `The key ring holds the numbered secrets that seal ids of tasks, messages and page tokens, and from which inbound keys are derived.
One key seals; all that are kept verify what they sealed.`,
	}, a.ringKeys().listCommand(a, &cobra.Command{
		Short: "List the keys, without their secrets",
		Long: `Lists the keys by number, without their secrets. Each is in one of these states:

  waiting   it was added and seals later, when all servers know it
  sealing   it seals
  retired   it verifies messages and page tokens until MESSAGES UNTIL, and ids of tasks until VERIFIES UNTIL
  expired   the next rotation removes it

The first key has no CREATED.`,
	}, nil), a.keyringRotateCommand())
}

func (a *app) keyringRotateCommand() *cobra.Command {
	return a.calling(&cobra.Command{
		Use:   "rotate",
		Short: "Add a key that seals from soon on",
		Long: `Adds a key, which seals after 15 minutes, when all servers have read it. The key before it is retired then: it verifies messages
and page tokens for 45 days, and ids of tasks for as long as a task may wait and its row is kept. Keys that nothing needs any
more are removed. Programs that send to the inbound queue need their new key ('kinesin inbound key') within those 45 days.

Rotate only when all servers are of a release that knows 'kinesin keyring'. Exit 1 while the key that was added last does not
seal yet, and when 128 keys are kept.`,
		Args: cobra.NoArgs,
	}, func(ctx context.Context, k *sdk.Client, _ []string) error {
		c := over(k)
		r, err := ask(ctx, c, "rotate keys", c.Keyring.RotateKeys, &kinesinv1.RotateKeysRequest{})
		if err != nil {
			return err
		}
		text := fmt.Sprintf("key %d seals from %s on", r.GetKey().GetNumber(), instantText(r.GetKey().GetSealsFrom()))
		if removed := r.GetRemoved(); len(removed) > 0 {
			text += "; removed: " + strings.Trim(strings.ReplaceAll(fmt.Sprint(removed), " ", ", "), "[]")
		}
		return a.print(r, "%s", text)
	})
}
