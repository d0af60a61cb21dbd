package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/api"
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

const (
	rejectedPerCall = 100  // names that a server takes in one call
	rejectedPerPage = 1000 // of a list
)

func (a *app) rejectedCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "rejected",
		Short: "Show, retry and delete messages that were set aside",
		Long: `Messages of the inbound queue, or single tasks of a message, that could not be accepted, with the reason:

  undecodable      it was sealed with the inbound key and cannot be read
  newer_version    a newer version sent it: upgrade the servers, then retry
  not_ours         its id was not issued with the inbound key: give the sender the key again
  unknown_lambda   there is no such lambda: create it, then retry
  invalid          a value is outside what is allowed
  too_large        its payload is above the server's limit
  stale            it was received so late that it may have run already: a retry runs it

They are kept until they are deleted. A message that no inbound key vouches for is not kept: SQS moves it to the queue's
dead-letter queue. Servers log it, and count it in kinesin_inbound_left_total by its why:

  unsealed           it was not sealed with an inbound key, or the sender is unknown
  rotated_key        its key was rotated out more than 45 days ago: give the sender the new one
  revoked_sender     its sender was revoked
  sender_lambda      it has a task that is outside the lambdas of its sender
  sender_unreadable  a named sender sealed it, and it cannot be read
  aside_full, sender_full  there is no room to set it aside: delete some`,
	}, a.rejectedListCommand(), a.rejectedGetCommand(), a.rejectedRetryCommand(), a.rejectedDeleteCommand())
}

func (a *app) rejectedListCommand() *cobra.Command {
	limit := listLimitDefault
	c := &cobra.Command{
		Use:     "list [--limit N]",
		Short:   "List what was set aside",
		Example: `  kinesin inbound rejected list --limit 0 -o json | jq -r '.rejected[] | select(.reason == "unknown_lambda").name'`,
	}
	c.Flags().Var(intValue{n: &limit}, "limit", "how many to list at most; 0 for all")
	return a.rejected().listCommand(a, c, func(ctx context.Context, c *calls, _ []string) (proto.Message, error) {
		answer, err := listRejected(ctx, c, limit)
		if answer.GetMore() {
			a.note("there is more; --limit 0 lists all")
		}
		return answer, err
	})
}

// listRejected reads at most so many of what is set aside, page by page; 0: all.
func listRejected(ctx context.Context, c *calls, limit int) (*kinesinv1.ListRejectedResponse, error) {
	all, request := &kinesinv1.ListRejectedResponse{}, &kinesinv1.ListRejectedRequest{}
	for {
		if request.Limit = rejectedPerPage; limit > 0 {
			request.Limit = int32(min(limit-len(all.GetRejected()), rejectedPerPage))
		}
		r, err := ask(ctx, c, "list rejected", c.Inbound.ListRejected, request)
		if err != nil {
			return nil, err
		}
		all.Rejected, all.More = append(all.GetRejected(), r.GetRejected()...), r.GetMore()
		if n := len(r.GetRejected()); !r.GetMore() || n == 0 || limit > 0 && len(all.GetRejected()) >= limit {
			return all, nil
		}
		request.After = all.GetRejected()[len(all.GetRejected())-1].GetName()
	}
}

func (a *app) rejectedGetCommand() *cobra.Command {
	var whole bool
	n := a.rejected()
	get := n.get
	payloadBytes := 0 // that get has left out
	n.get = func(ctx context.Context, c *calls, name string) (*kinesinv1.Rejected, error) {
		r, err := get(ctx, c, name)
		if err == nil && !whole {
			payloadBytes = len(r.GetItem().GetPayload())
			r.Body = nil
			leavePayloadsOut(r.GetItem())
		}
		return r, err
	}
	n.print = func(a *app, r *kinesinv1.Rejected) error {
		return printRejected(newTable(a.Stdout), r, payloadBytes+len(r.GetItem().GetPayload()))
	}
	c := &cobra.Command{Use: "get NAME [--payload]", Short: "Show one that was set aside, with its contents"}
	c.Flags().BoolVar(&whole, "payload", false, "show the payload too, or the message if it could not be read")
	return n.getCommand(a, c)
}

// leavePayloadsOut clears the payloads of a task and of those that follow it.
func leavePayloadsOut(items ...*kinesinv1.ScheduleItem) {
	for _, item := range items {
		if item == nil {
			continue
		}
		item.Payload = nil
		leavePayloadsOut(slices.Concat(item.GetThen(), item.GetElse(), item.GetFinally())...)
	}
}

func printRejected(t table, r *kinesinv1.Rejected, payloadBytes int) error {
	item := r.GetItem()
	t.facts([][2]string{
		{"name", r.GetName()},
		{"reason", r.GetReason()},
		{"text", r.GetText()},
		{"at", instantText(r.GetRejected())},
		{"accepted", instantText(r.GetAccepted())},
		{"id", r.GetId()},
		{"lambda", cmp.Or(item.GetLambda(), r.GetLambda())},
		{"priority", item.GetPriority()},
		{"collection", item.GetCollection()},
		{"bytes", strconv.FormatInt(r.GetBytes(), 10)},
		{"retries", strconv.Itoa(int(r.GetRetries()))},
	})
	if item != nil {
		t.fact("payload bytes", strconv.Itoa(payloadBytes))
	}
	for name, data := range map[string][]byte{"payload": item.GetPayload(), "message": r.GetBody()} { // there is one of them
		text, encoded := textOrBase64(data)
		t.fact(name, quotedText(text))
		t.fact(name+" (base64)", encoded)
	}
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
		Long: `Accepts tasks again, after the cause is removed, and prints the id of each. A stale task may have run already; then it runs
twice. Exit 1 when one is still set aside.`,
	}, "", "retry all that is set aside", func(ctx context.Context, c *calls, names []string) (results []*kinesinv1.RetryRejectedResult, err error) {
		r, err := ask(ctx, c, "retry rejected", c.Inbound.RetryRejected, &kinesinv1.RetryRejectedRequest{Names: names})
		return r.GetResults(), err
	})
}

func (a *app) rejectedDeleteCommand() *cobra.Command {
	return a.rejectedActionCommand(&cobra.Command{
		Use:   "delete NAME… | --all",
		Short: "Delete what was set aside",
		Long:  `Deletes what was set aside, with its contents. Exit 1 when there is none with a name.`,
	}, outcomeDeleted, "delete all that is set aside", func(ctx context.Context, c *calls, names []string) (results []*kinesinv1.RetryRejectedResult, err error) {
		r, err := ask(ctx, c, "delete rejected", c.Inbound.DeleteRejected, &kinesinv1.DeleteRejectedRequest{Names: names})
		for _, deleted := range r.GetResults() {
			results = append(results, &kinesinv1.RetryRejectedResult{Problem: deleted.GetProblem()})
		}
		return results, err
	})
}

// actedObject is the result for one name in JSON.
type actedObject struct {
	Name    string           `json:"name"`
	Outcome string           `json:"outcome,omitempty"`
	ID      string           `json:"id,omitempty"` // of the task that was accepted
	Problem *api.HTTPProblem `json:"problem,omitempty"`
}

// rejectedActionCommand makes a command that does something with names, of which act takes up to
// rejectedPerCall. outcome says what became of those for which no task is told; empty: there is one.
func (a *app) rejectedActionCommand(
	c *cobra.Command, outcome, allHelp string, act func(ctx context.Context, c *calls, names []string) ([]*kinesinv1.RetryRejectedResult, error),
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
		c := over(k)
		if all {
			rejected, err := listRejected(ctx, c, 0)
			if err != nil {
				return err
			}
			for _, r := range rejected.GetRejected() {
				names = append(names, r.GetName())
			}
		}
		out := a.results(all || len(names) > 1)
		for part := range slices.Chunk(names, rejectedPerCall) {
			done, err := act(ctx, c, part)
			if err != nil {
				return err
			}
			for i, r := range done {
				err := api.ErrorOf(r.GetProblem())
				o := actedObject{Name: part[i], ID: r.GetId(), Problem: httpProblemOf(err)}
				if err == nil {
					o.Outcome = outcome
				}
				text := cmp.Or(o.ID, outcome+" message "+o.Name)
				if err := out.add(part[i], err, o, func() error { return a.printLine(text) }); err != nil {
					return err
				}
			}
		}
		return out.end()
	})
}
