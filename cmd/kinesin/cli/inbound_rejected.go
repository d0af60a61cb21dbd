package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

// rejectedPerCall is how many names a server takes in one call.
const rejectedPerCall = 100

func (a *app) rejectedCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "rejected",
		Short: "Show, retry and delete messages that were set aside",
		Long: `Messages of the inbound queue, or single tasks of a message, that could not be accepted, with the reason:

  undecodable      it was sealed with the inbound key and cannot be read
  newer_version    a newer version sent it: upgrade the servers, then retry
  not_ours         its id was not issued with the inbound key
  unknown_lambda   there is no such lambda: create it, then retry
  invalid          a value is outside what is allowed
  too_large        its payload is above the server's limit
  stale            it was received so late that it may have run already: a retry runs it

They are kept until they are deleted. A message that no inbound key vouches for is not kept: anybody who may send to the
queue can send one. It stays in the queue, and SQS moves it to the queue's dead-letter queue. Servers log it, and count it
in kinesin_inbound_left_total by its why:

  unsealed         it was not sealed with an inbound key
  rotated_key      it was sealed with an inbound key that was rotated out
  revoked_sender   it was sealed with the key of a sender that was revoked
  sender_lambda    it has a task that is outside the lambdas of its sender`,
	}, a.rejectedListCommand(), a.rejectedGetCommand(), a.rejectedRetryCommand(), a.rejectedDeleteCommand())
}

// rejectedObject is what was set aside in JSON.
type rejectedObject struct {
	Name     string `json:"name"`
	Reason   string `json:"reason"`
	Text     string `json:"text"`
	At       string `json:"at"`
	Accepted string `json:"accepted,omitempty"`
	ID       string `json:"id,omitempty"`
	Lambda   string `json:"lambda,omitempty"`
	Bytes    int64  `json:"bytes"`
	Retries  int    `json:"retries"`

	// The fields below are for get only.

	Priority      string `json:"priority,omitempty"`
	Collection    string `json:"collection,omitempty"`
	PayloadBytes  *int   `json:"payload_bytes,omitempty"`
	Payload       string `json:"payload,omitempty"`
	PayloadBase64 string `json:"payload_base64,omitempty"`
	Body          string `json:"body,omitempty"`
	BodyBase64    string `json:"body_base64,omitempty"`
}

func rejectedObjectOf(r *admin.RejectedMessage) rejectedObject {
	return rejectedObject{
		Name: r.Name, Reason: r.Reason, Text: r.Text, At: timeText(r.Rejected), Accepted: timeText(r.Accepted),
		ID: string(r.ID), Lambda: r.Lambda, Bytes: r.Bytes, Retries: r.Retries,
	}
}

func (a *app) rejectedListCommand() *cobra.Command {
	limit := listLimitDefault
	c := &cobra.Command{
		Use:     "list [--limit N]",
		Short:   "List what was set aside",
		Example: `  kinesin inbound rejected list --limit 0 -o json | jq -r '.[] | select(.reason == "unknown_lambda").name'`,
	}
	c.Flags().Var(intValue{n: &limit}, "limit", "how many to list at most; 0 for all")
	return a.rejected().listCommand(a, c, func(ctx context.Context, k *sdk.Client, _ []string) ([]admin.RejectedMessage, error) {
		all, more, err := readRejected(ctx, k, limit)
		if more {
			a.note("there is more; --limit 0 lists all")
		}
		return all, err
	})
}

func readRejected(ctx context.Context, k *sdk.Client, limit int) (all []admin.RejectedMessage, more bool, err error) {
	for r, err := range admin.New(k).Rejected.List(ctx) {
		if err != nil {
			return nil, false, err
		}
		if limit > 0 && len(all) == limit {
			return all, true, nil
		}
		all = append(all, r)
	}
	return all, false, nil
}

func (a *app) rejectedGetCommand() *cobra.Command {
	var whole bool
	n := a.rejected()
	n.whole = func(r *admin.RejectedMessage) any { return wholeRejected(r, whole) }
	n.print = func(a *app, r *admin.RejectedMessage) error {
		o := wholeRejected(r, whole)
		return o.print(newTable(a.Stdout))
	}
	c := &cobra.Command{Use: "get NAME [--payload]", Short: "Show one that was set aside, with its contents"}
	c.Flags().BoolVar(&whole, "payload", false, "show the payload too, or the message if it could not be read")
	return n.getCommand(a, c)
}

func wholeRejected(r *admin.RejectedMessage, whole bool) rejectedObject {
	o := rejectedObjectOf(r)
	if r.Item != nil {
		n := len(r.Item.Payload)
		o.Lambda, o.Priority, o.Collection, o.PayloadBytes = r.Item.Lambda, r.Item.Priority, r.Item.Collection, &n
	}
	if !whole {
		return o
	}
	if r.Item != nil {
		o.Payload, o.PayloadBase64 = textOrBase64(r.Item.Payload)
	}
	o.Body, o.BodyBase64 = textOrBase64(r.Body)
	return o
}

func (o *rejectedObject) print(t table) error {
	t.facts([][2]string{
		{"name", o.Name},
		{"reason", o.Reason},
		{"text", o.Text},
		{"at", o.At},
		{"accepted", o.Accepted},
		{"id", o.ID},
		{"lambda", o.Lambda},
		{"priority", o.Priority},
		{"collection", o.Collection},
		{"bytes", strconv.FormatInt(o.Bytes, 10)},
		{"retries", strconv.Itoa(o.Retries)},
	})
	if o.PayloadBytes != nil {
		t.fact("payload bytes", strconv.Itoa(*o.PayloadBytes))
	}
	t.fact("payload", quotedText(o.Payload))
	t.fact("payload (base64)", o.PayloadBase64)
	t.fact("message", quotedText(o.Body))
	t.fact("message (base64)", o.BodyBase64)
	return t.Flush()
}

// quotedText makes text from others safe for a terminal.
func quotedText(text string) string {
	if text == "" {
		return ""
	}
	return fmt.Sprintf("%q", text)
}

func (a *app) rejectedRetryCommand() *cobra.Command {
	return a.rejectedActionCommand(&cobra.Command{
		Use:   "retry NAME… | --all",
		Short: "Accept tasks again that were set aside",
		Long: `Accepts tasks again, after the cause is removed, and prints the id of each. Tasks that became due meanwhile start at once. A stale
task may have run already; then it runs twice. Exit 1 when one is still set aside.`,
	}, "", "retry all that is set aside", func(ctx context.Context, k *sdk.Client, names []string) ([]admin.RetryResult, error) {
		return admin.New(k).Rejected.Retry(ctx, names...)
	})
}

func (a *app) rejectedDeleteCommand() *cobra.Command {
	return a.rejectedActionCommand(&cobra.Command{
		Use:   "delete NAME… | --all",
		Short: "Delete what was set aside",
		Long:  `Deletes what was set aside, with its contents. Exit 1 when there is none with a name.`,
	}, outcomeDeleted, "delete all that is set aside", func(ctx context.Context, k *sdk.Client, names []string) ([]admin.RetryResult, error) {
		errs, err := admin.New(k).Rejected.Delete(ctx, names...)
		results := make([]admin.RetryResult, len(errs))
		for i := range errs {
			results[i].Err = errs[i]
		}
		return results, err
	})
}

// actedObject is the result for one name in JSON.
type actedObject struct {
	Name    string `json:"name"`
	Outcome string `json:"outcome,omitempty"`
	ID      sdk.ID `json:"id,omitempty"` // of the task that was accepted
	refusal
}

// rejectedActionCommand makes a command that does something with names, of which act takes up to
// rejectedPerCall. outcome says what became of those for which no task is told; empty: there is one.
func (a *app) rejectedActionCommand(
	c *cobra.Command, outcome, allHelp string, act func(ctx context.Context, k *sdk.Client, names []string) ([]admin.RetryResult, error),
) *cobra.Command {
	var all bool
	c.Flags().BoolVar(&all, "all", false, allHelp)
	c.Args = func(_ *cobra.Command, args []string) error {
		switch {
		case all && len(args) > 0:
			return usagef("--all and %q: want one or the other", args[0])
		case !all && len(args) == 0:
			return usagef("NAME is missing: want one or more, or --all")
		case slices.Contains(args, ""):
			return usagef("NAME is empty: `kinesin inbound rejected list` has the names")
		}
		return nil
	}
	c.ValidArgsFunction = a.rejected().complete(a)
	return a.calling(c, func(ctx context.Context, k *sdk.Client, names []string) error {
		if all {
			rejected, _, err := readRejected(ctx, k, 0)
			if err != nil {
				return err
			}
			for i := range rejected {
				names = append(names, rejected[i].Name)
			}
		}
		out := a.results(all || len(names) > 1)
		for part := range slices.Chunk(names, rejectedPerCall) {
			done, err := act(ctx, k, part)
			if err != nil {
				return err
			}
			for i, r := range done {
				o := actedObject{Name: part[i], ID: r.ID, refusal: refusalOf(r.Err)}
				if r.Err == nil {
					o.Outcome = outcome
				}
				text := cmp.Or(string(o.ID), outcome+" message "+o.Name)
				if err := out.add(part[i], r.Err, o, func() error { return a.printLine(text) }); err != nil {
					return err
				}
			}
		}
		return out.end()
	})
}
