package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
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

// ringKeyObject is a key of the ring in JSON. It has no secret.
type ringKeyObject struct {
	Number        int    `json:"number"`
	Created       string `json:"created,omitempty"`
	SealsFrom     string `json:"seals_from,omitempty"`
	RetiredAt     string `json:"retired_at,omitempty"`
	MessagesUntil string `json:"messages_until,omitempty"`
	VerifiesUntil string `json:"verifies_until,omitempty"`
	State         string `json:"state"`
	Removed       []int  `json:"removed,omitempty"` // keys that a rotation removed
}

func ringKeyObjectOf(k *admin.RingKey) ringKeyObject {
	return ringKeyObject{
		Number: k.Number, Created: timeText(k.Created), SealsFrom: timeText(k.SealsFrom), RetiredAt: timeText(k.Retired),
		MessagesUntil: timeText(k.MessagesUntil), VerifiesUntil: timeText(k.VerifiesUntil), State: string(k.State),
	}
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
		added, removed, err := admin.New(k).Keys.Rotate(ctx)
		if err != nil {
			return err
		}
		o := ringKeyObjectOf(&added)
		o.Removed = removed
		text := fmt.Sprintf("key %d seals from %s on", o.Number, o.SealsFrom)
		if len(removed) > 0 {
			numbers := make([]string, len(removed))
			for i, n := range removed {
				numbers[i] = strconv.Itoa(n)
			}
			text += "; removed: " + strings.Join(numbers, ", ")
		}
		return a.print(o, "%s", text)
	})
}
