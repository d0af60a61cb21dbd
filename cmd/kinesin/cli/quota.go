package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/wirecopy"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

// Bounds of the flags; the server has the same.
const (
	quotaRateMin, quotaRateMax = 0.001, 1_000_000
	quotaBurstMax              = 100_000
	quotaConcurrencyMax        = 100_000
)

func (a *app) quotaCommand() *cobra.Command {
	n := a.quotas()
	of := func(ctx context.Context, c *calls, args []string) (proto.Message, error) {
		return ask(ctx, c, "get quotas", c.Quotas.GetQuotas, &kinesinv1.GetQuotasRequest{Lambda: first(args)})
	}
	return group(&cobra.Command{
		Use:   "quota",
		Short: "Bound how many tasks of a lambda start or are scheduled per second, or run at once",
		Long: `A quota bounds how many tasks of a lambda start per second or run at once, on all servers together (docs/concepts/limits.md#quotas). A
retry counts like a first start. Tasks that are due wait. An admission quota refuses what is scheduled faster.`,
	}, a.quotaSetCommand(),
		n.listCommand(a, &cobra.Command{Short: "List the quotas of all lambdas"}, of),
		n.listCommand(a, &cobra.Command{
			Use: "get LAMBDA", Aliases: []string{"show"}, Short: "Show the quotas of a lambda",
			Args: one("LAMBDA"), ValidArgsFunction: a.lambdas().complete(a),
		}, of))
}

func (a *app) quotaSetCommand() *cobra.Command {
	var q admin.Quota
	var o admin.QuotaSetOptions
	c := &cobra.Command{
		Use:   "set LAMBDA [--priority P] [--rate N [--burst N]] [--concurrency N] [--admit N [--identity I]] [--recovery N] [--reset SETTINGS]",
		Short: "Set a quota of a lambda, or take it away",
		Long: `Sets a quota, in force on all servers within two seconds, and prints it. What is not given stays; --reset takes limits away.
A rate of 0 is refused: kinesin gate pause stops starts.

--concurrency counts attempts that wait in a queue for a worker too. Refused calls say when to try again; the SDK and
schedule --batch do.`,
		Example: `  kinesin quota set mail --rate 100
  kinesin quota set mail --priority low --rate 20 --burst 50
  kinesin quota set mail --concurrency 20
  kinesin quota set mail --admit 500 --identity crm
  kinesin quota set mail --recovery 50
  kinesin quota set mail --reset rate`,
		Args: one("LAMBDA"), ValidArgsFunction: a.lambdas().complete(a),
	}
	f := c.Flags()
	f.StringVar(&q.Priority, "priority", "", helpOf("SetQuotaRequest.priority"))
	quotaFlags(f, &q)
	managedByFlag(f, &q.ManagedBy)
	f.StringVar(&q.Identity, "identity", "", helpOf("SetQuotaRequest.identity"))
	resetFlag(f, &o.Reset, api.Changeable(&kinesinv1.SetQuotaRequest{})...)
	return a.calling(c, func(ctx context.Context, k *sdk.Client, args []string) error {
		q.Lambda = args[0]
		if err := checkQuota(&q, "--", o.Reset...); err != nil {
			return usagef("%v", err)
		}
		set, err := admin.New(k).Quotas.Set(ctx, q, o)
		if err != nil {
			return err
		}
		return a.quotas().show(a, wirecopy.To[kinesinv1.Quota](&set))
	})
}

// quotaFlags are the limits of a quota.
func quotaFlags(f *pflag.FlagSet, q *admin.Quota) {
	f.Var(rateLimit(&q.Rate, "kinesin gate pause stops starts, and --reset rate takes the limit away"), "rate", "starts per second, such as 100 or 0.5")
	f.Var(intValue{&q.Burst, 1, quotaBurstMax}, "burst", helpOf("SetQuotaRequest.burst"))
	f.Var(countLimit(&q.Concurrency, quotaConcurrencyMax, "concurrency"), "concurrency", "tasks that run at once")
	f.Var(rateLimit(&q.Admit, "kinesin gate pause keeps what is scheduled from starting, and --reset admit takes the limit away"), "admit", "tasks per second that may be scheduled")
	f.Var(countLimit(&q.Recovery, quotaRateMax, "recovery"), "recovery", "tasks per second that gate resume and redrive jobs let go that have no --pace")
}

// checkQuota refuses limits that do not go together; mark is what is before their names, and reset names some to take away.
func checkQuota(q *admin.Quota, mark string, reset ...string) error {
	refuse := func(text string) error { return errors.New(strings.ReplaceAll(text, "--", mark)) }
	switch {
	case q.Rate == 0 && q.Burst == 0 && q.Admit == 0 && q.Concurrency == 0 && q.Recovery == 0:
		if q.ManagedBy != "" || len(reset) > 0 {
			return nil
		}
		return refuse("nothing to set: want --rate, --burst, --concurrency, --admit or --recovery")
	case q.Recovery != 0 && (q.Priority != "" || q.Identity != ""):
		return refuse("--recovery is per lambda: it goes with neither --priority nor --identity")
	case q.Identity != "" && q.Admit == 0:
		return refuse("--identity is for --admit")
	case q.Priority != "" && q.Admit != 0:
		return refuse("--priority does not go with --admit, which is per lambda and identity")
	case q.Concurrency != 0 && q.Identity != "":
		return refuse("--identity does not go with --concurrency, which is per lambda and priority: set two quotas")
	case q.Rate != 0 && q.Identity != "":
		return refuse("--identity does not go with --rate, which is per lambda and priority: set two quotas")
	}
	return nil
}

// quotaText says for people what a quota is about, and what it allows.
func quotaText(q *kinesinv1.Quota) string {
	text := q.GetLambda()
	if q.GetPriority() != "" {
		text += ", priority " + q.GetPriority()
	}
	if q.GetIdentity() != "" {
		text += ", identity " + q.GetIdentity()
	}
	return text + ": " + limitsText(q)
}

// limitsText says for people what a quota allows.
func limitsText(q *kinesinv1.Quota) string {
	var limits []string
	if q.GetRate() > 0 {
		text := rateText(q.GetRate()) + " starts"
		if q.GetBurst() > 0 {
			text += fmt.Sprintf(", burst %d", q.GetBurst())
		}
		limits = append(limits, text)
	}
	if q.GetConcurrency() > 0 {
		limits = append(limits, fmt.Sprintf("%d running", q.GetConcurrency()))
	}
	if q.GetAdmit() > 0 {
		limits = append(limits, rateText(q.GetAdmit())+" scheduled")
	}
	if q.GetRecovery() > 0 {
		limits = append(limits, rateText(float64(q.GetRecovery()))+" resumed or redriven")
	}
	return cmp.Or(strings.Join(limits, "; "), "no limit")
}

func rateText(rate float64) string {
	if rate == 0 {
		return ""
	}
	return strconv.FormatFloat(rate, 'f', -1, 64) + "/s"
}

func countText(n uint32) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(int(n))
}
