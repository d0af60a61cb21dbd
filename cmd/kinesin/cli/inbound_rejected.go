package cli

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/sdk"
)

// rejectedPerCall is the server's bound on the names of one call.
const rejectedPerCall = 100

func (a *app) rejectedCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "rejected",
		Short: "Show, retry and delete what was set aside",
		Long: `What came through the inbound queue and can never be taken as it is, with its reason:

  undecodable      it is no message of Kinesin's
  newer_version    a newer version sent it: upgrade the servers, then retry
  not_ours         it was not sealed with this installation's inbound key, or its id was not issued with it
  unknown_lambda   there is no such lambda: create it, then retry
  invalid          a value is outside what is allowed
  too_large        its payload is above the server's limit
  stale            it came again so late that it may have run already: a retry runs it

Nothing of it is lost until it is deleted.`,
	}
	c.AddCommand(a.rejectedListCommand(), a.rejectedShowCommand(), a.rejectedRetryCommand(), a.rejectedDeleteCommand())
	group(c)
	return c
}

// rejectedObject is what was set aside in JSON results.
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

	// Of show only.
	Priority      string `json:"priority,omitempty"`
	Collection    string `json:"collection,omitempty"`
	PayloadBytes  *int   `json:"payload_bytes,omitempty"`
	Payload       string `json:"payload,omitempty"`
	PayloadBase64 string `json:"payload_base64,omitempty"`
	Body          string `json:"body,omitempty"`
	BodyBase64    string `json:"body_base64,omitempty"`
}

func rejectedObjectOf(r *sdk.Rejected) rejectedObject {
	return rejectedObject{
		Name: r.Name, Reason: r.Reason, Text: r.Text, At: timeText(r.At), Accepted: timeText(r.Accepted),
		ID: string(r.ID), Lambda: r.Lambda, Bytes: r.Bytes, Retries: r.Retries,
	}
}

func (a *app) rejectedListCommand() *cobra.Command {
	var limit int
	c := &cobra.Command{
		Use:     "list [--limit N]",
		Short:   "List what was set aside",
		Example: `  kinesin inbound rejected list --limit 0 -o json | jq -r '.[] | select(.reason == "unknown_lambda").name'`,
		Args:    cobra.NoArgs,
	}
	c.Flags().IntVar(&limit, "limit", listLimitDefault, "most to list, 0 for all")
	c.RunE = does(func(ctx context.Context, _ []string) error {
		if limit < 0 {
			return usagef("--limit %d: want 0 (all) or more", limit)
		}
		return a.withClient(func(k *sdk.Client) error {
			all, more, err := readRejected(ctx, k, limit)
			if err != nil {
				return err
			}
			return a.printRejected(all, more)
		}, sdk.WithTries(triesAtHand))
	})
	a.outputFlag(c.Flags())
	a.serverFlag(c.Flags())
	return c
}

func readRejected(ctx context.Context, k *sdk.Client, limit int) (all []sdk.Rejected, more bool, err error) {
	for r, err := range k.Rejected(ctx) {
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

func (a *app) printRejected(all []sdk.Rejected, more bool) error {
	if more {
		a.note("there is more; --limit 0 lists all")
	}
	if a.json() {
		array := arrayWriter{w: a.Stdout}
		for i := range all {
			if err := array.add(rejectedObjectOf(&all[i])); err != nil {
				return err
			}
		}
		return array.end()
	}
	if len(all) == 0 {
		a.note("nothing is set aside")
		return nil
	}
	t := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tREASON\tLAMBDA\tAT\tBYTES\tRETRIES\tTEXT")
	for i := range all {
		r := &all[i]
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%d\t%s\n", r.Name, r.Reason, r.Lambda, timeText(r.At), r.Bytes, r.Retries, r.Text)
	}
	return t.Flush()
}

func (a *app) rejectedShowCommand() *cobra.Command {
	var whole bool
	c := &cobra.Command{
		Use:   "show NAME [--payload]",
		Short: "Show one, with what is kept of it",
		Args:  oneName,
	}
	c.Flags().BoolVar(&whole, "payload", false, "show the payload too, or the message where it could not be read")
	c.RunE = does(func(ctx context.Context, names []string) error {
		return a.withClient(func(k *sdk.Client) error {
			r, err := k.GetRejected(ctx, names[0])
			if err != nil {
				return err
			}
			o := wholeRejected(&r, whole)
			if a.json() {
				return printJSON(a.Stdout, o)
			}
			return printRejectedOne(a.Stdout, &o)
		}, sdk.WithTries(triesAtHand))
	})
	a.outputFlag(c.Flags())
	a.serverFlag(c.Flags())
	return c
}

func wholeRejected(r *sdk.Rejected, whole bool) rejectedObject {
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

func textOrBase64(data []byte) (text, encoded string) {
	if utf8.Valid(data) {
		return string(data), ""
	}
	return "", base64.StdEncoding.EncodeToString(data)
}

func printRejectedOne(w io.Writer, o *rejectedObject) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(t, "%s\t%s\n", name, value)
		}
	}
	line("name", o.Name)
	line("reason", o.Reason)
	line("text", o.Text)
	line("at", o.At)
	line("accepted", o.Accepted)
	line("id", o.ID)
	line("lambda", o.Lambda)
	line("priority", o.Priority)
	line("collection", o.Collection)
	fmt.Fprintf(t, "bytes\t%d\nretries\t%d\n", o.Bytes, o.Retries)
	if o.PayloadBytes != nil {
		fmt.Fprintf(t, "payload bytes\t%d\n", *o.PayloadBytes)
	}
	line("payload", forTerminal(o.Payload))
	line("payload (base64)", o.PayloadBase64)
	line("message", forTerminal(o.Body))
	line("message (base64)", o.BodyBase64)
	return t.Flush()
}

// forTerminal is what others sent, made fit for a terminal.
func forTerminal(text string) string {
	if text == "" {
		return ""
	}
	return fmt.Sprintf("%q", text)
}

func (a *app) rejectedRetryCommand() *cobra.Command {
	return a.rejectedActionCommand(&cobra.Command{
		Use:   "retry NAME… | --all",
		Short: "Take some in once more",
		Long: `Takes tasks in once more, after a remedy, and prints the id of each. What was due meanwhile starts at once. What is stale may have run already, and
runs again. Exit 1 when one is set aside still.`,
	}, "retry all that is set aside", func(ctx context.Context, k *sdk.Client, names []string) ([]sdk.RetryResult, error) {
		return k.RetryRejected(ctx, names...)
	})
}

func (a *app) rejectedDeleteCommand() *cobra.Command {
	return a.rejectedActionCommand(&cobra.Command{
		Use:   "delete NAME… | --all",
		Short: "Forget some for good",
		Long:  `Deletes what was set aside, and all that is kept of it, and prints the name of each. Exit 1 when one is not there.`,
	}, "delete all that is set aside", func(ctx context.Context, k *sdk.Client, names []string) ([]sdk.RetryResult, error) {
		errs, err := k.DeleteRejected(ctx, names...)
		results := make([]sdk.RetryResult, len(errs))
		for i := range errs {
			results[i].Err = errs[i]
		}
		return results, err
	})
}

// rejectedAct does something about up to rejectedPerCall names, with an answer for each.
type rejectedAct func(ctx context.Context, k *sdk.Client, names []string) ([]sdk.RetryResult, error)

func (a *app) rejectedActionCommand(c *cobra.Command, allHelp string, act rejectedAct) *cobra.Command {
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
	c.RunE = does(func(ctx context.Context, names []string) error {
		return a.withClient(func(k *sdk.Client) error {
			if all {
				rejected, _, err := readRejected(ctx, k, 0)
				if err != nil {
					return err
				}
				for i := range rejected {
					names = append(names, rejected[i].Name)
				}
			}
			return a.actOnRejected(ctx, k, names, all || len(names) > 1, act)
		}, sdk.WithTries(triesAtHand))
	})
	a.outputFlag(c.Flags())
	a.serverFlag(c.Flags())
	return c
}

// actedObject is what became of one in JSON results.
type actedObject struct {
	Name   string `json:"name"`
	ID     string `json:"id,omitempty"` // of the task that was taken in
	Error  string `json:"error,omitempty"`
	Reason string `json:"reason,omitempty"`
}

func (a *app) actOnRejected(ctx context.Context, k *sdk.Client, names []string, several bool, act rejectedAct) error {
	array := arrayWriter{w: a.Stdout}
	var failed error
	for part := range slices.Chunk(names, rejectedPerCall) {
		results, err := act(ctx, k, part)
		if err != nil {
			return err
		}
		for i, r := range results {
			if r.Err != nil {
				failed = errReported
				a.note("%s: %v", short(part[i]), r.Err)
			}
			if err := a.printActed(&array, several, part[i], r); err != nil {
				return err
			}
		}
	}
	if a.json() && several {
		return errors.Join(failed, array.end())
	}
	return failed
}

func (a *app) printActed(array *arrayWriter, several bool, name string, r sdk.RetryResult) error {
	o := actedObject{Name: name, ID: string(r.ID)}
	if r.Err != nil {
		o.Error, o.Reason = r.Err.Error(), reasonOf(r.Err)
	}
	switch {
	case a.json() && several:
		return array.add(o)
	case a.json():
		return printJSON(a.Stdout, o)
	case r.Err == nil:
		_, err := fmt.Fprintln(a.Stdout, cmp.Or(o.ID, name))
		return err
	}
	return nil
}
