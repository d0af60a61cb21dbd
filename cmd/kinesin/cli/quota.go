package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/sdk"
)

// Bounds of the flags; the server has the same.
const (
	quotaRateMin, quotaRateMax = 0.001, 1_000_000
	quotaBurstMax              = 100_000
)

func (a *app) quotaCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "quota",
		Short: "Bound how many tasks of a lambda start, or are scheduled, per second",
		Long: `A quota keeps the tasks of a lambda, or of a priority of it, at a rate: a retry counts like a first start. All servers keep it
together. Tasks that are due wait, and start as the rate allows. An admission quota refuses what is scheduled faster.`,
	}, a.quotaSetCommand(), a.quotaGetCommand())
}

func (a *app) quotaSetCommand() *cobra.Command {
	var q sdk.Quota
	c := &cobra.Command{
		Use:   "set --lambda L [--priority P] [--rate N [--burst N]] [--admit N [--identity I]]",
		Short: "Set a quota of a lambda, or take it away",
		Long: `Sets a quota, in force on all servers within two seconds, and prints it. What is not given stays as it is; "none" takes a limit
away. A rate of 0 is refused: kinesin gate pause stops starts, and says to everybody why.

Each server admits its share of --admit, and up to a second of it at once. Refused calls say when to try again;
the SDK and schedule --batch do.`,
		Example: `  kinesin quota set --lambda mail --rate 100
  kinesin quota set --lambda mail --priority low --rate 20 --burst 50
  kinesin quota set --lambda mail --admit 500 --identity crm
  kinesin quota set --lambda mail --rate none`,
		Args: cobra.NoArgs,
	}
	f := c.Flags()
	f.StringVar(&q.Lambda, "lambda", "", "the lambda")
	f.StringVar(&q.Priority, "priority", "", "bound the starts of this priority; those of all together when not set")
	f.Var(rateValue{&q.Rate, "kinesin gate pause stops starts, and --rate none takes the limit away"}, "rate", "starts per second, such as 100 or 0.5, or none")
	f.Var(intValue{&q.Burst, 1, quotaBurstMax}, "burst", "how many may start at once after a pause; what the rate gives in 100 ms when not set")
	f.Var(rateValue{&q.Admit, "--admit none takes the limit away"}, "admit", "tasks per second that may be scheduled, or none")
	f.StringVar(&q.Identity, "identity", "", "bound what this identity schedules; all together when not set")
	return a.calling(c, func(ctx context.Context, k *sdk.Client, _ []string) error {
		switch {
		case q.Lambda == "":
			return usagef("--lambda is missing: whose quota?")
		case q.Rate == 0 && q.Burst == 0 && q.Admit == 0:
			return usagef("nothing to set: want --rate, --burst or --admit")
		case q.Identity != "" && q.Admit == 0:
			return usagef("--identity is for --admit")
		case q.Priority != "" && q.Admit != 0:
			return usagef("--priority does not go with --admit, which is per lambda and identity")
		case q.Rate != 0 && q.Identity != "":
			return usagef("--identity does not go with --rate, which is per lambda and priority: set the two quotas in two commands")
		}
		set, err := k.SetQuota(ctx, q)
		if err != nil {
			return err
		}
		return a.print(quotaObjectOf(&set), "%s", quotaText(&set))
	})
}

func (a *app) quotaGetCommand() *cobra.Command {
	var lambda string
	c := &cobra.Command{
		Use:   "get [--lambda L]",
		Short: "Show the quotas of a lambda, or of all",
		Args:  cobra.NoArgs,
	}
	c.Flags().StringVar(&lambda, "lambda", "", "only of this lambda")
	return a.calling(c, func(ctx context.Context, k *sdk.Client, _ []string) error {
		all, err := k.Quotas(ctx, lambda)
		if err != nil {
			return err
		}
		if a.json() {
			objects := make([]quotaObject, len(all))
			for i := range all {
				objects[i] = quotaObjectOf(&all[i])
			}
			return printJSON(a.Stdout, objects)
		}
		if len(all) == 0 {
			a.note("there are no quotas; set one with `kinesin quota set --lambda NAME --rate N`")
			return nil
		}
		t := newTable(a.Stdout)
		t.row("LAMBDA", "PRIORITY", "IDENTITY", "RATE", "BURST", "ADMIT", "UPDATED", "BY")
		for i := range all {
			q := &all[i]
			t.row(q.Lambda, cmp.Or(q.Priority, "-"), cmp.Or(q.Identity, "-"), rateText(q.Rate), burstText(q.Burst), rateText(q.Admit), timeText(q.Updated), cmp.Or(q.UpdatedBy, "-"))
		}
		return t.Flush()
	})
}

// quotaObject is a quota in JSON results.
type quotaObject struct {
	Lambda    string  `json:"lambda"`
	Priority  string  `json:"priority,omitempty"`
	Identity  string  `json:"identity,omitempty"`
	Rate      float64 `json:"rate,omitempty"`
	Burst     int     `json:"burst,omitempty"`
	Admit     float64 `json:"admit,omitempty"`
	Updated   string  `json:"updated,omitempty"`
	UpdatedBy string  `json:"updated_by,omitempty"`
}

func quotaObjectOf(q *sdk.Quota) quotaObject {
	return quotaObject{q.Lambda, q.Priority, q.Identity, q.Rate, q.Burst, q.Admit, timeText(q.Updated), q.UpdatedBy}
}

// quotaText says for people what a quota is about, and what it allows.
func quotaText(q *sdk.Quota) string {
	text := q.Lambda
	if q.Priority != "" {
		text += ", priority " + q.Priority
	}
	if q.Identity != "" {
		text += ", identity " + q.Identity
	}
	return text + ": " + limitsText(q)
}

// limitsText says for people what a quota allows.
func limitsText(q *sdk.Quota) string {
	text := ""
	if q.Rate > 0 {
		text = rateText(q.Rate) + " starts"
		if q.Burst > 0 {
			text += fmt.Sprintf(", %d at once", q.Burst)
		}
	}
	if q.Admit > 0 {
		if text != "" {
			text += "; "
		}
		text += rateText(q.Admit) + " scheduled"
	}
	if text == "" {
		return "no limit"
	}
	return text
}

func rateText(rate float64) string {
	if rate == 0 {
		return "-"
	}
	return strconv.FormatFloat(rate, 'f', -1, 64) + "/s"
}

func burstText(burst int) string {
	if burst == 0 {
		return "-"
	}
	return strconv.Itoa(burst)
}

// rateValue is a rate, or none, which is negative.
type rateValue struct {
	rate *float64
	zero string // what to do instead of a rate of 0
}

func (v rateValue) String() string {
	if v.rate == nil || *v.rate == 0 {
		return ""
	}
	return strconv.FormatFloat(*v.rate, 'f', -1, 64)
}

func (rateValue) Type() string { return "rate" }

func (v rateValue) Set(text string) error {
	if text == "none" {
		*v.rate = -1
		return nil
	}
	rate, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil:
		return fmt.Errorf("%q is not a rate: want a number per second such as 100 or 0.5, or none", text)
	case rate == 0:
		return errors.New("a quota of 0 is refused: " + v.zero)
	case !(rate >= quotaRateMin && rate <= quotaRateMax):
		return fmt.Errorf("%s is out of range: want %v to %d per second, or none", text, quotaRateMin, quotaRateMax)
	}
	*v.rate = rate
	return nil
}
