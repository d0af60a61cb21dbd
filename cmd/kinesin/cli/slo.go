package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/task"
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
	r := &kinesinv1.SetObjectiveRequest{}
	var within time.Duration
	window := sloWindowDefault
	c := &cobra.Command{
		Use:   "set --lambda L --within D --objective PERCENT [--window D]",
		Short: "Set the objective of a lambda",
		Long: `Sets the objective of a lambda and prints it. Starts are counted from a minute later at the latest. What was counted before stays,
by the time that held then.`,
		Example: `  kinesin slo set --lambda mail --within 5s --objective 99
  kinesin slo set --lambda mail --within 500ms --objective 99.9 --window 7d`,
		Args: cobra.NoArgs,
	}
	f := c.Flags()
	f.StringVar(&r.Lambda, "lambda", "", "the lambda")
	f.Var(durationValue{d: &within, min: time.Millisecond, max: 24 * time.Hour}, "within", "how late a task may start")
	f.Float64Var(&r.Objective, "objective", 0, "`PERCENT` of tasks that start in time, above 0 and below 100")
	f.Var(durationValue{d: &window, min: time.Hour, max: 90 * 24 * time.Hour}, "window", "over which time that holds, in whole hours")
	return a.callingObjectives(c, func(ctx context.Context, o kinesinv1connect.ObjectiveServiceClient) error {
		switch {
		case r.Lambda == "":
			return usagef("--lambda is missing: whose objective?")
		case within == 0:
			return usagef("--within is missing: how late may a task start, such as 5s?")
		case !(r.Objective > 0 && r.Objective < 100):
			return usagef("--objective %v: want a percentage above 0 and below 100, such as 99", r.Objective)
		case window%time.Hour != 0:
			return usagef("--window %v: want whole hours", window)
		}
		r.WithinMicros, r.WindowMicros = within.Microseconds(), window.Microseconds()
		response, err := o.SetObjective(ctx, r)
		if err != nil {
			return err
		}
		set := objectiveObjectOf(response.GetObjective())
		return a.print(set, "%s", set)
	})
}

func (a *app) sloShowCommand() *cobra.Command {
	var lambda string
	c := &cobra.Command{
		Use:   "show [--lambda L]",
		Short: "Show how objectives are met: what is left of the budget, and how fast it burns",
		Long: `Shows how many tasks started in the window of each objective, how many of them in time, what is left of the budget (1: all of it,
below 0: more was late than may be), and how fast it is used up: at a burn of 1 all of it in one window, at 14.4 a thirty-day budget
in 50 hours. A task that expired counts as late; one that still waits is not counted. With -o json, an array.`,
		Args: cobra.NoArgs,
	}
	c.Flags().StringVar(&lambda, "lambda", "", "only of this lambda")
	return a.callingObjectives(c, func(ctx context.Context, o kinesinv1connect.ObjectiveServiceClient) error {
		response, err := o.GetObjectives(ctx, &kinesinv1.GetObjectivesRequest{Lambda: lambda})
		if err != nil {
			return err
		}
		all := make([]sloObject, len(response.GetObjectives()))
		for i, s := range response.GetObjectives() {
			all[i] = sloObjectOf(s)
		}
		if a.json() {
			return printJSON(a.Stdout, all)
		}
		if len(all) == 0 {
			a.note("there are no objectives; set one with `kinesin slo set --lambda NAME --within 5s --objective 99`")
			return nil
		}
		t := newTable(a.Stdout)
		t.row("LAMBDA", "OBJECTIVE", "WINDOW", "STARTED", "IN TIME", "BUDGET LEFT", "BURN")
		for _, s := range all {
			burns := make([]string, len(s.Burn))
			for i, b := range s.Burn {
				burns[i] = b.Over + " " + strconv.FormatFloat(b.Rate, 'f', 2, 64)
			}
			t.row(s.Lambda, percentText(s.Objective)+" within "+s.Within, s.Window, strconv.FormatInt(s.Started, 10),
				percentText(s.Attained), percentText(100*s.BudgetLeft), strings.Join(burns, ", "))
		}
		return t.Flush()
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
	return a.callingObjectives(c, func(ctx context.Context, o kinesinv1connect.ObjectiveServiceClient) error {
		if lambda == "" {
			return usagef("--lambda is missing: whose objective?")
		}
		if _, err := o.DeleteObjective(ctx, &kinesinv1.DeleteObjectiveRequest{Lambda: lambda}); err != nil {
			return err
		}
		return a.print(map[string]string{"lambda": lambda, "outcome": "deleted"}, "%s has no objective", lambda)
	})
}

// callingObjectives completes a command that calls the ObjectiveService.
func (a *app) callingObjectives(c *cobra.Command, act func(ctx context.Context, o kinesinv1connect.ObjectiveServiceClient) error) *cobra.Command {
	return a.calling(c, func(ctx context.Context, _ *sdk.Client, _ []string) error {
		clients, err := a.connections()
		if err != nil {
			return err
		}
		defer clients.CloseIdle()
		err = act(ctx, kinesinv1connect.NewObjectiveServiceClient(clients.Calls, clients.Base, api.ClientOptions()...))
		if _, called := errors.AsType[*connect.Error](err); called {
			return api.FromWire(err)
		}
		return err
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
}

func (o objectiveObject) String() string {
	return fmt.Sprintf("%s: %s start within %s, over %s", o.Lambda, percentText(o.Objective), o.Within, o.Window)
}

// sloObject is how an objective is met in JSON.
type sloObject struct {
	objectiveObject

	Started    int64        `json:"started"`
	Good       int64        `json:"good"`
	Attained   float64      `json:"attained"`
	BudgetLeft float64      `json:"budget_left"`
	Burn       []burnObject `json:"burn"`
}

type burnObject struct {
	Over    string  `json:"over"`
	Rate    float64 `json:"rate"`
	Started int64   `json:"started"`
}

func objectiveObjectOf(o *kinesinv1.Objective) objectiveObject {
	return objectiveObject{
		o.GetLambda(), formatDuration(task.Micros(o.GetWithinMicros())), o.GetObjective(), formatDuration(task.Micros(o.GetWindowMicros())),
		timeText(task.Instant(o.GetUpdatedMicros()).Time()), o.GetUpdatedBy(),
	}
}

func sloObjectOf(s *kinesinv1.ObjectiveStatus) sloObject {
	o := sloObject{objectiveObjectOf(s.GetObjective()), s.GetStarted(), s.GetGood(), s.GetAttained(), s.GetBudgetLeft(), []burnObject{}}
	for _, b := range s.GetBurns() {
		o.Burn = append(o.Burn, burnObject{formatDuration(task.Micros(b.GetOverMicros())), b.GetRate(), b.GetStarted()})
	}
	return o
}

// percentText shows a percentage with as many decimals as it has, four at most.
func percentText(p float64) string {
	return strconv.FormatFloat(math.Round(p*10_000)/10_000, 'f', -1, 64) + " %"
}
