package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/task"
)

func (a *app) lambdaCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "lambda",
		Short: "Create, show, change and delete lambdas",
		Long:  `A lambda is a named callback, with the settings that all its tasks share.`,
	}
	c.AddCommand(a.lambdaCreateCommand(), a.lambdaGetCommand(), a.lambdaListCommand(), a.lambdaUpdateCommand(), a.lambdaDeleteCommand())
	group(c)
	return c
}

// lambdaObject is a lambda in JSON results.
type lambdaObject struct {
	Name         string   `json:"name"`
	Mode         string   `json:"mode"`
	Priorities   []string `json:"priorities"`
	Shards       int      `json:"shards"`
	ShardsFrom   string   `json:"shards_from,omitempty"`  // of a lambda whose shards grew
	MaxAttempts  int      `json:"max_attempts,omitempty"` // this and the next three: not of mode deliver
	TimeoutMS    float64  `json:"timeout_ms,omitempty"`
	BackoffMinMS float64  `json:"backoff_min_ms,omitempty"`
	BackoffMaxMS float64  `json:"backoff_max_ms,omitempty"`
	RetentionMS  float64  `json:"retention_ms"`
	Created      string   `json:"created,omitempty"`
	Deleting     bool     `json:"deleting"`
	Registered   bool     `json:"registered"`
	Withdrawn    bool     `json:"withdrawn"`
	Refused      string   `json:"registration_refused,omitempty"`
	Existed      *bool    `json:"existed,omitempty"` // of create only
}

func lambdaObjectOf(l *sdk.LambdaInfo) lambdaObject {
	return lambdaObject{
		Name: l.Name, Mode: l.Mode, Priorities: l.Priorities, Shards: l.Shards, MaxAttempts: l.MaxAttempts,
		TimeoutMS: millis(l.Timeout), BackoffMinMS: millis(l.BackoffMin), BackoffMaxMS: millis(l.BackoffMax), RetentionMS: millis(l.Retention),
		Created: timeText(l.Created), ShardsFrom: timeText(l.ShardsFrom), Deleting: l.Deleting, Registered: l.Registered, Withdrawn: l.Withdrawn,
		Refused: l.RegistrationRefused,
	}
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func printLambda(w io.Writer, l *sdk.LambdaInfo) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "name\t%s\nmode\t%s\npriorities\t%s\nshards\t%s\n", l.Name, l.Mode, strings.Join(l.Priorities, ","), shardsText(l))
	if l.Mode != sdk.ModeDeliver {
		fmt.Fprintf(t, "max attempts\t%d\ntimeout\t%s\nbackoff\t%s..%s\n", l.MaxAttempts, formatDuration(l.Timeout),
			formatDuration(l.BackoffMin), formatDuration(l.BackoffMax))
	}
	fmt.Fprintf(t, "retention\t%s\ncreated\t%s\n", formatDuration(l.Retention), timeText(l.Created))
	switch {
	case l.Withdrawn:
		fmt.Fprintf(t, "registered\twithdrawn: goes when its tasks have ended; put the module call back, or kinesin lambda delete %s --drop\n", l.Name)
	case l.Registered && l.RegistrationRefused != "":
		fmt.Fprintf(t, "registered\tby Terraform, refused: %s\n", l.RegistrationRefused)
	case l.Registered:
		fmt.Fprintln(t, "registered\tby Terraform")
	case l.RegistrationRefused != "":
		fmt.Fprintf(t, "registered\tnot yet, refused: %s\n", l.RegistrationRefused)
	}
	if l.Deleting {
		fmt.Fprintln(t, "deleting\tyes: it takes no new tasks")
	}
	return t.Flush()
}

// shardsText says of shards that grew when they came, or come, into force.
func shardsText(l *sdk.LambdaInfo) string {
	if l.ShardsFrom.IsZero() {
		return strconv.Itoa(l.Shards)
	}
	return fmt.Sprintf("%d, for new tasks from %s on", l.Shards, timeText(l.ShardsFrom))
}

// settingsOf adds the flags of what can be changed in a lambda.
func settingsOf(f *pflag.FlagSet, l *sdk.LambdaInfo) {
	f.IntVar(&l.MaxAttempts, "max-attempts", 0, fmt.Sprintf("failed attempts after which a task is dead, 1 to %d; %d when not set", task.AttemptsMax, task.MaxAttemptsDefault))
	f.Var(durationValue{d: &l.Timeout}, "timeout", "bound of one attempt; "+formatDuration(task.TimeoutDefault)+" when not set")
	f.Var(rangeValue{&l.BackoffMin, &l.BackoffMax}, "backoff", "least and longest wait before a retry; "+
		formatDuration(task.BackoffMinDefault)+".."+formatDuration(task.BackoffMaxDefault)+" when not set")
	f.Var(durationValue{d: &l.Retention}, "retention", "how long ended tasks are kept; "+formatDuration(task.RetentionDefault)+" when not set")
}

// checkLambda refuses flags that no server would take; the name is the server's to judge. Explicit zeros
// would mean "not set" on the wire.
func checkLambda(f *pflag.FlagSet, l *sdk.LambdaInfo) error {
	for _, name := range []string{"max-attempts", "timeout", "retention", "shards"} {
		if flag := f.Lookup(name); flag != nil && flag.Changed && (flag.Value.String() == "0" || flag.Value.String() == "") {
			return usagef("--%s 0: leave it out for the default", name)
		}
	}
	if l.Shards < 0 || l.Shards > task.ShardsMax {
		return usagef("--shards %d: want 1 to %d", l.Shards, task.ShardsMax)
	}
	if l.MaxAttempts < 0 || l.MaxAttempts > task.AttemptsMax {
		return usagef("--max-attempts %d: want 1 to %d", l.MaxAttempts, task.AttemptsMax)
	}
	v := task.Lambda{
		Name: "judged-there", Priorities: l.Priorities, Shards: uint16(l.Shards), MaxAttempts: uint32(l.MaxAttempts),
		Timeout: l.Timeout, BackoffMin: l.BackoffMin, BackoffMax: l.BackoffMax, Retention: l.Retention,
	}
	if err := v.WithDefaults().Validate(); err != nil {
		return usagef("%v", err)
	}
	return nil
}
