package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/sdk"
)

const (
	auditSinceDefault = 24 * time.Hour
	auditPerCall      = 1000
)

func (a *app) auditCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "audit",
		Short: "Show who did what",
	}, a.auditListCommand(), a.auditVerifyCommand())
}

func (a *app) auditListCommand() *cobra.Command {
	since := auditSinceDefault
	c := &cobra.Command{
		Use:   "list [--since D]",
		Short: "Show who did what",
		Long: `Lists the records of operators' acts, changes of configuration and refused calls, oldest first: who did what, on what, from
where, and how it ended. Scheduling, claims and results have no records. With -o json each record is one line.`,
		Example: `  kinesin audit list --since 1h
  kinesin audit list --since 720h -o json | jq -r 'select(.outcome == "denied") | .identity' | sort | uniq -c`,
		Args: cobra.NoArgs,
	}
	c.Flags().Var(durationValue{d: &since, min: time.Second}, "since", "how far back to look")
	return a.watching(c, func(ctx context.Context, k *sdk.Client, _ []string) error {
		return a.printAudit(ctx, over(k), time.Now().Add(-since))
	})
}

func (a *app) printAudit(ctx context.Context, c *calls, since time.Time) error {
	request := &kinesinv1.ListAuditRequest{Since: since.UnixMicro(), Limit: auditPerCall}
	t := newTable(a.Stdout)
	if !a.json() {
		t.row("AT", "IDENTITY", "FROM", "ACTION", "TARGET", "OUTCOME", "COUNT")
	}
	for {
		response, err := ask(ctx, c, "list audit", c.Access.ListAudit, request)
		if err != nil {
			return err
		}
		for _, r := range response.GetRecords() {
			if !a.json() {
				t.row(instantText(r.GetAt()), r.GetIdentity(), dash(r.GetFrom()), r.GetAction(), dash(r.GetTarget()), r.GetOutcome(), strconv.Itoa(int(r.GetCount())))
			} else if err := printJSON(a.Stdout, r); err != nil {
				return err
			}
		}
		if err := t.Flush(); err != nil {
			return err
		}
		if request.After = response.GetNext(); request.After == "" {
			return nil
		}
	}
}

func (a *app) auditVerifyCommand() *cobra.Command {
	return a.calling(&cobra.Command{
		Use:   "verify",
		Short: "Check that no audit record of an embedded store was changed or removed",
		Long: `Checks by their hashes that each audit record follows the one before, up to the last one. It cannot notice that the oldest
are missing, nor that the whole store was rewritten: for that compare the head with the server's log. Exit 1 when the chain
is broken; the output says where.`,
		Args: cobra.NoArgs,
	}, func(ctx context.Context, k *sdk.Client, _ []string) error {
		c := over(k)
		r, err := askSet(ctx, c, "verify audit", c.Access.VerifyAudit, &kinesinv1.VerifyAuditRequest{})
		if err != nil {
			return err
		}
		if r.GetProblem() != "" {
			if a.json() {
				_ = printJSON(a.Stdout, r)
			}
			return fmt.Errorf("the audit records are not as they were written: %s", r.GetProblem())
		}
		return a.print(r, "%d records, %d to %d, are as they were written; head %x", r.GetRecords(), r.GetFirstSeq(), r.GetLastSeq(), r.GetHead())
	})
}
