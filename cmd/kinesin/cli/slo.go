package cli

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/slo"
)

// sloWindowDefault is the window of an objective that names none; the server has the same.
const sloWindowDefault = 30 * 24 * time.Hour

func (a *app) sloCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "slo",
		Short: "Set and show which share of a lambda's tasks is to start in time",
		Long: `An objective says that a share of a lambda's tasks starts within a time after they are due, over a window that ends now. The rest
is the budget: what may be late. Each server counts starts by the hour in the store, so a restart keeps the budget.`,
	}, a.sloSetCommand(), a.sloShowCommand(), a.sloDeleteCommand())
}

func (a *app) sloSetCommand() *cobra.Command {
	o := slo.Objective{Window: sloWindowDefault}
	c := &cobra.Command{
		Use:   "set --lambda L --within D --objective PERCENT [--window D]",
		Short: "Set the objective of a lambda",
		Long: `Sets the objective of a lambda and prints it. Starts are counted from a minute later at the latest. Earlier counts stay as they
are, by the time that held then.`,
		Example: `  kinesin slo set --lambda mail --within 5s --objective 99
  kinesin slo set --lambda mail --within 500ms --objective 99.9 --window 7d`,
		Args: cobra.NoArgs,
	}
	f := c.Flags()
	f.StringVar(&o.Lambda, "lambda", "", "the lambda")
	objectiveFlags(f, &o)
	return a.calling(c, func(ctx context.Context, k *sdk.Client, _ []string) error {
		if o.Lambda == "" {
			return usagef("--lambda is missing: whose objective?")
		}
		if err := checkObjective(&o, "--"); err != nil {
			return usagef("%v", err)
		}
		set, err := k.SetObjective(ctx, o)
		if err != nil {
			return err
		}
		shown := objectiveObjectOf(&set)
		return a.print(shown, "%s", shown)
	})
}

// objectiveFlags are the settings of an objective.
func objectiveFlags(f *pflag.FlagSet, o *slo.Objective) {
	f.Var(durationValue{d: &o.Within, min: time.Millisecond, max: 24 * time.Hour}, "within", "how late a task may start")
	f.Var(number(&o.Percent, o.Percent), "objective", "`PERCENT` of tasks that start in time, above 0 and below 100")
	f.Var(durationValue{d: &o.Window, min: time.Hour, max: 90 * 24 * time.Hour}, "window", "over which time that holds, in whole hours")
}

// checkObjective refuses settings that are missing or not allowed; mark is what is before their names.
func checkObjective(o *slo.Objective, mark string) error {
	switch {
	case o.Within == 0:
		return fmt.Errorf("%swithin is missing: how late may a task start, such as 5s?", mark)
	case !(o.Percent > 0 && o.Percent < 100):
		return fmt.Errorf("%sobjective %v: want a percentage above 0 and below 100, such as 99", mark, o.Percent)
	case o.Window%time.Hour != 0:
		return fmt.Errorf("%swindow %v: want whole hours", mark, o.Window)
	}
	return nil
}

func (a *app) sloShowCommand() *cobra.Command {
	var lambda string
	c := &cobra.Command{
		Use:   "show [--lambda L]",
		Short: "Show how objectives are met: what is left of the budget, and how fast it burns",
		Long: `Shows how many tasks started in the window of each objective, how many of them in time, what is left of the budget (1: all of it,
below 0: more was late than may be), and how fast it is used up: at a burn of 1 all of it in one window, at 14.4 a thirty-day budget
in 50 hours. A task that expired counts as late, and so does one that still waits, from when it is: LATE NOW says how many of STARTED those are.
With -o json, an array.`,
		Args: cobra.NoArgs,
	}
	c.Flags().StringVar(&lambda, "lambda", "", "only of this lambda")
	return a.calling(c, func(ctx context.Context, k *sdk.Client, _ []string) error {
		all, err := k.Objectives(ctx, lambda)
		if err != nil {
			return err
		}
		titles := []string{"LAMBDA", "OBJECTIVE", "WINDOW", "STARTED", "LATE NOW", "IN TIME", "BUDGET LEFT", "BURN", "FROM"}
		return printList(a, objectsOf(all, sloObjectOf), "there are no objectives; set one with `kinesin slo set --lambda NAME --within 5s --objective 99`", titles,
			func(_ int, s *sloObject) []string {
				burns := make([]string, len(s.Burn))
				for i, b := range s.Burn {
					burns[i] = b.Over + " " + strconv.FormatFloat(b.Rate, 'f', 2, 64)
				}
				return []string{
					s.Lambda, percentText(s.Objective) + " within " + s.Within, s.Window, strconv.FormatInt(s.Started, 10), strconv.FormatInt(s.Waiting, 10),
					percentText(s.Attained), percentText(100 * s.BudgetLeft), strings.Join(burns, ", "), sourceText(s.Registered, s.ManagedBy),
				}
			})
	})
}

func (a *app) sloDeleteCommand() *cobra.Command {
	var lambda string
	c := &cobra.Command{
		Use:   "delete --lambda L",
		Short: "Delete the objective of a lambda",
		Args:  cobra.NoArgs,
	}
	c.Flags().StringVar(&lambda, "lambda", "", "the lambda")
	return a.calling(c, func(ctx context.Context, k *sdk.Client, _ []string) error {
		if lambda == "" {
			return usagef("--lambda is missing: whose objective?")
		}
		if err := k.DeleteObjective(ctx, lambda); err != nil {
			return err
		}
		return a.print(map[string]string{"lambda": lambda, "outcome": "deleted"}, "%s has no objective", lambda)
	})
}

// objectiveObject is an objective in JSON.
type objectiveObject struct {
	Lambda    string  `json:"lambda"`
	Within    string  `json:"within"`
	Objective float64 `json:"objective"`
	Window    string  `json:"window"`
	Updated   string  `json:"updated,omitempty"`
	UpdatedBy string  `json:"updated_by,omitempty"`

	ManagedBy  string `json:"managed_by,omitempty"`
	Registered bool   `json:"registered,omitempty"`
}

func (o objectiveObject) String() string {
	return fmt.Sprintf("%s: %s start within %s, over %s", o.Lambda, percentText(o.Objective), o.Within, o.Window)
}

// sloObject is how an objective is met in JSON.
type sloObject struct {
	objectiveObject

	Started    int64        `json:"started"`
	Good       int64        `json:"good"`
	Waiting    int64        `json:"waiting"`
	Attained   float64      `json:"attained"`
	BudgetLeft float64      `json:"budget_left"`
	Burn       []burnObject `json:"burn"`
}

type burnObject struct {
	Over    string  `json:"over"`
	Rate    float64 `json:"rate"`
	Started int64   `json:"started"`
}

func objectiveObjectOf(o *slo.Objective) objectiveObject {
	return objectiveObject{
		o.Lambda, formatDuration(o.Within), o.Percent, formatDuration(o.Window), timeText(o.Updated), o.UpdatedBy, o.ManagedBy, o.Registered,
	}
}

func sloObjectOf(s *slo.Status) sloObject {
	o := sloObject{objectiveObjectOf(&s.Objective), s.Started, s.Good, s.Waiting, s.Attained, s.BudgetLeft, []burnObject{}}
	for _, b := range s.Burns {
		o.Burn = append(o.Burn, burnObject{formatDuration(b.Over), b.Rate, b.Started})
	}
	return o
}

// percentText shows a percentage with as many decimals as it has, four at most.
func percentText(p float64) string {
	return strconv.FormatFloat(math.Round(p*10_000)/10_000, 'f', -1, 64) + " %"
}

// sourceText says what keeps something as code; "-": nothing does.
func sourceText(registered bool, managedBy string) string {
	switch {
	case registered:
		return registeredSource
	case managedBy != "":
		return "set " + managedBy
	}
	return "-"
}

// registeredSource is the source of what the registration of a lambda made.
const registeredSource = "by Terraform"
