package cli

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/audit"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/task"
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
		Long: `Shows the records of operators' acts, of changes of configuration and of refused calls, oldest first: who (identity), from where, did
what (action) on what (target), and how it ended (outcome: ok, denied, unauthenticated, failed). Scheduling, claims and results have
no records. Frequent calls of programs, and refusals, become one record for 10 s, with their count.

With -o json each record is one line.`,
		Example: `  kinesin audit list --since 1h
  kinesin audit list --since 720h -o json | jq -r 'select(.outcome == "denied") | .identity' | sort | uniq -c`,
		Args: cobra.NoArgs,
	}
	c.Flags().Var(durationValue{d: &since, min: time.Second}, "since", "how far back to look")
	return a.watching(c, func(ctx context.Context, _ *sdk.Client, _ []string) error {
		return a.withAccess(func(client kinesinv1connect.AccessServiceClient) error {
			return a.printAudit(ctx, client, time.Now().Add(-since))
		})
	})
}

func (a *app) printAudit(ctx context.Context, client kinesinv1connect.AccessServiceClient, since time.Time) error {
	request := &kinesinv1.ListAuditRequest{Since: since.UnixMicro(), Limit: auditPerCall}
	t := newTable(a.Stdout)
	if !a.json() {
		t.row("AT", "IDENTITY", "FROM", "ACTION", "TARGET", "OUTCOME", "COUNT")
	}
	for {
		r, err := client.ListAudit(ctx, request)
		if err != nil {
			return err
		}
		for _, w := range r.GetRecords() {
			record := auditRecordOf(w)
			if !a.json() {
				t.row(timeText(record.At.Time()), record.Identity, cmp.Or(record.From, "-"), record.Action, cmp.Or(record.Target, "-"), record.Outcome, strconv.Itoa(int(record.Count)))
				continue
			}
			if err := printJSON(a.Stdout, record); err != nil {
				return err
			}
		}
		if err := t.Flush(); err != nil {
			return err
		}
		if request.After = r.GetNext(); request.After == "" {
			return nil
		}
	}
}

func auditRecordOf(w *kinesinv1.AuditRecord) audit.Record {
	return audit.Record{
		At: task.Instant(w.GetAt()), Identity: w.GetIdentity(), From: w.GetFrom(), Action: w.GetAction(), Target: w.GetTarget(),
		Outcome: w.GetOutcome(), Before: w.GetBefore(), After: w.GetAfter(), Count: w.GetCount(), Seq: w.GetSeq(), Hash: w.GetHash(),
	}
}

// verifyObject is the outcome of a verification in JSON.
type verifyObject struct {
	Records int64  `json:"records"`
	First   uint64 `json:"first_seq"`
	Last    uint64 `json:"last_seq"`
	Head    string `json:"head"`
	Problem string `json:"problem,omitempty"`
}

func (a *app) auditVerifyCommand() *cobra.Command {
	return a.callingAccess(&cobra.Command{
		Use:   "verify",
		Short: "Check that no audit record of an embedded store was changed or removed",
		Long: `Checks that each audit record that is kept follows the one before, by its hash, up to the last one that the server wrote. It cannot
notice that the oldest are missing, nor that somebody rewrote the whole store: for that compare the head with one noted earlier, or
with the server's log, which has the hash of each record.

Exit 1 when the chain is broken; the output says where. Servers that share a store do not link their records.`,
		Args: cobra.NoArgs,
	}, func(ctx context.Context, client kinesinv1connect.AccessServiceClient, _ []string) error {
		r, err := client.VerifyAudit(ctx, &kinesinv1.VerifyAuditRequest{})
		if err != nil {
			return err
		}
		o := verifyObject{r.GetRecords(), r.GetFirstSeq(), r.GetLastSeq(), hex.EncodeToString(r.GetHead()), r.GetProblem()}
		if o.Problem != "" {
			if a.json() {
				_ = printJSON(a.Stdout, o)
			}
			return fmt.Errorf("the audit records are not as they were written: %s", o.Problem)
		}
		return a.print(o, "%d records, %d to %d, are as they were written; head %s", o.Records, o.First, o.Last, o.Head)
	})
}
