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

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/wirecopy"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

// sloWindowDefault is the window of an objective that names none; the server has the same.
const sloWindowDefault = 30 * 24 * time.Hour

func (a *app) objectiveCommand() *cobra.Command {
	n := a.objectives()
	list := n.listCommand(a, &cobra.Command{Short: "List how the objectives of all lambdas are met"}, nil)
	get := n.getCommand(a, &cobra.Command{Short: "Show how an objective is met: what is left of the budget, and how fast it burns", Long: objectiveLong})
	getOne := get.RunE
	get.Args, get.RunE = optionalLambda, func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return list.RunE(c, args)
		}
		return getOne(c, args)
	}
	return group(&cobra.Command{
		Use:     "objective",
		Aliases: []string{"slo"},
		Short:   "Set and show which share of a lambda's tasks is to start in time",
		Long: `An objective says that a share of a lambda's tasks starts within a time after they are due, over a window that ends now. The
rest is the budget: what may be late (docs/how-to/objectives.md).`,
	}, a.objectiveSetCommand(), list, get, n.deleteCommand(a, &cobra.Command{Short: "Delete the objective of a lambda"}))
}

func (a *app) objectiveSetCommand() *cobra.Command {
	o := admin.Objective{Window: sloWindowDefault}
	c := &cobra.Command{
		Use:   "set LAMBDA --within D --objective PERCENT [--window D]",
		Short: "Set the objective of a lambda",
		Long:  `Sets the objective of a lambda and prints it. Starts are counted from a minute later at the latest; earlier counts stay.`,
		Example: `  kinesin objective set mail --within 5s --objective 99
  kinesin objective set mail --within 500ms --objective 99.9 --window 7d`,
		Args: one("LAMBDA"), ValidArgsFunction: a.lambdas().complete(a),
	}
	f := c.Flags()
	objectiveFlags(f, &o)
	managedByFlag(f, &o.ManagedBy)
	return a.calling(c, func(ctx context.Context, k *sdk.Client, args []string) error {
		o.Lambda = args[0]
		if err := checkObjective(&o, "--"); err != nil {
			return usagef("%v", err)
		}
		set, err := admin.New(k).Objectives.Set(ctx, o)
		if err != nil {
			return err
		}
		shown := wirecopy.To[kinesinv1.Objective](&set)
		shown.Objective = set.Percent
		return a.print(shown, "%s: %s start within %s, over %s", set.Lambda, percentText(set.Percent), formatDuration(set.Within), formatDuration(set.Window))
	})
}

// objectiveFlags are the settings of an objective.
func objectiveFlags(f *pflag.FlagSet, o *admin.Objective) {
	f.Var(durationValue{d: &o.Within, min: time.Millisecond, max: 24 * time.Hour}, "within", helpOf("SetObjectiveRequest.within"))
	f.Var(number(&o.Percent, o.Percent), "objective", helpOf("SetObjectiveRequest.objective"))
	f.Var(durationValue{d: &o.Window, min: time.Hour, max: 90 * 24 * time.Hour}, "window", helpOf("SetObjectiveRequest.window"))
}

// checkObjective refuses settings that are missing or not allowed; mark is what is before their names.
func checkObjective(o *admin.Objective, mark string) error {
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

const objectiveLong = `Shows how many tasks started in the window of an objective, how many of them in time, what is left of the budget (1: all of
it, below 0: more was late than may be), and how fast it burns: at 1 all of it is used up in one window.`

// promiseText says for people what an objective asks for.
func promiseText(o *kinesinv1.Objective) string {
	return percentText(o.GetObjective()) + " within " + spanText(o.GetWithin())
}

// burnText says how fast the budget is used up, over each of the times that the server looks back.
func burnText(s *kinesinv1.ObjectiveStatus) string {
	burns := make([]string, len(s.GetBurns()))
	for i, b := range s.GetBurns() {
		burns[i] = spanText(b.GetOver()) + " " + strconv.FormatFloat(b.GetRate(), 'f', 2, 64)
	}
	return strings.Join(burns, ", ")
}

// percentText shows a percentage with as many decimals as it has, four at most.
func percentText(p float64) string {
	return strconv.FormatFloat(math.Round(p*10_000)/10_000, 'f', -1, 64) + " %"
}

// sourceText says what keeps something as code; empty: nothing does.
func sourceText(of interface {
	GetRegistered() bool
	GetManagedBy() string
},
) string {
	switch {
	case of.GetRegistered():
		return registeredSource
	case of.GetManagedBy() != "":
		return "set " + of.GetManagedBy()
	}
	return ""
}

// registeredSource is the source of what the registration of a lambda made.
const registeredSource = "by Terraform"
