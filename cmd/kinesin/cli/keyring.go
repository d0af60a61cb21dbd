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
		Long: `The key ring holds the numbered secrets that seal ids of tasks, messages and page tokens. One key seals; all that are kept
verify what they sealed.`,
	}, a.ringKeys().listCommand(a, &cobra.Command{
		Short: "List the keys, without their secrets",
		Long: `Lists the keys by number, without their secrets, and the state of each: waiting (it seals later, when all servers know it),
sealing, retired (it still verifies what it sealed) or expired (the next rotation removes it).`,
	}, nil), a.keyringRotateCommand())
}

func (a *app) keyringRotateCommand() *cobra.Command {
	return a.calling(&cobra.Command{
		Use:   "rotate",
		Short: "Add a key that seals from soon on",
		Long: `Adds a key, which seals after 15 minutes, and removes keys that nothing needs any more. The key before it verifies messages
for 45 days: give programs that send to the inbound queue the new key ('kinesin inbound key') meanwhile. Servers of a
release without 'kinesin keyring' cannot be used after it. Exit 1 while the key that was added last does not seal yet, and
when 128 keys are kept.`,
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
