package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kinesin-io/kinesin/internal/cost"
)

const bufferedFlag = "buffered"

type costFlags struct {
	cost.Load

	prices      string
	printPrices bool
}

// billObject is a bill in JSON.
type billObject struct {
	cost.Bill

	Load loadObject `json:"load"`
}

type loadObject struct {
	cost.Load

	Wait      string `json:"wait"`
	Retention string `json:"retention"`
}

func (a *app) costCommand() *cobra.Command {
	f := costFlags{Load: cost.Load{
		Mode: cost.Managed, Rate: 100, ScheduledShare: 1, PayloadBytes: 200, TasksPerRequest: 10,
		Wait: day, Retention: 7 * day, Servers: 3, Workers: 10, Queues: 1, Partitions: 12, Utilization: 0.7,
	}}
	c := &cobra.Command{
		Use:   "cost",
		Short: "Compute what a load costs on DynamoDB and SQS",
		Long: `Computes what a load costs in a month and per million tasks, on demand and with provisioned capacity, beside EventBridge
Scheduler (docs/reference/cost.md). It calls no service: prices come from a list, which --print-prices prints and --prices
replaces.`,
		Example: `  kinesin cost --mode deliver --rate 50
  kinesin cost --rate 1000 --peak-rate 3000 --payload-bytes 2000 --workers 40 -o json
  kinesin cost --print-prices > prices.yaml && kinesin cost --prices prices.yaml`,
		Args: cobra.NoArgs,
	}
	f.add(c.Flags())
	return a.acting(c, func(context.Context, []string) error {
		if !c.Flags().Changed(bufferedFlag) {
			f.BufferedShare = cost.InboundShare(f.Load)
		}
		return a.cost(&f)
	})
}

func (f *costFlags) add(flags *pflag.FlagSet) {
	flags.Var(choiceValue{&f.Mode, []string{cost.Managed, cost.Deliver}}, "mode", "mode of the lambda: managed or deliver")
	flags.Var(number(&f.Rate, f.Rate), "rate", "mean tasks per second over the month")
	flags.Var(number(&f.PeakRate, 0), "peak-rate", "tasks per second for which capacity is provisioned; the mean when not set")
	flags.Var(number(&f.ScheduledShare, f.ScheduledShare), "scheduled", "share of tasks that wait in the store")
	flags.Var(number(&f.KeyedShare, 0), "keyed", "share of managed scheduled tasks with an idempotency key")
	flags.Var(number(&f.MatchedShare, 0), "matched", "share of managed tasks that go straight to a waiting worker")
	flags.Var(number(&f.LongShare, 0), "long", "share of attempts that run for more than 200 ms")
	flags.Var(number(&f.Retries, 0), "retries", "mean failed attempts of a managed task")
	flags.Var(number(&f.BufferedShare, 0), bufferedFlag, "share of tasks that pass through the inbound queue; when not set, those that wait and have no key")
	flags.Var(whole(&f.PayloadBytes, f.PayloadBytes), "payload-bytes", "mean size of a payload")
	flags.Var(number(&f.TasksPerRequest, f.TasksPerRequest), "tasks-per-request", "how many tasks share an SQS request: 1 to 100")
	flags.Var(durationValue{d: &f.Wait}, "wait", "mean time from scheduling to the due time")
	flags.Var(durationValue{d: &f.Retention}, "retention", "how long ended managed tasks are kept")
	flags.Var(whole(&f.Servers, f.Servers), "servers", "server processes")
	flags.Var(whole(&f.Workers, f.Workers), "workers", "worker processes")
	flags.Var(whole(&f.Queues, f.Queues), "queues", "queues (lambda, priority) that workers poll")
	flags.Var(whole(&f.Partitions, f.Partitions), "partitions", "partitions: lambdas × priorities × shards")
	flags.Var(number(&f.Utilization, f.Utilization), "utilization", "share of provisioned capacity that the peak uses, at most 1")
	flags.StringVar(&f.prices, "prices", "", "YAML `FILE` with prices")
	flags.BoolVar(&f.printPrices, "print-prices", false, "print the built-in price list and exit")
}

func (a *app) cost(f *costFlags) error {
	if f.printPrices {
		_, err := a.Stdout.Write(cost.DefaultPrices)
		return err
	}
	if err := f.Check(); err != nil {
		return usagef("%v", err)
	}
	prices, err := readPrices(f.prices)
	if err != nil {
		return err
	}
	bill := cost.Of(f.Load, prices)
	if a.json() {
		return printJSON(a.Stdout, billObject{bill, loadObject{bill.Load, formatDuration(bill.Load.Wait), formatDuration(bill.Load.Retention)}})
	}
	return printBill(a.Stdout, &bill)
}

func readPrices(path string) (cost.Prices, error) {
	if path == "" {
		return cost.ReadPrices(bytes.NewReader(cost.DefaultPrices))
	}
	file, err := os.Open(path) //nolint:gosec // the user names the file
	if err != nil {
		return cost.Prices{}, usagef("price list: %v", err)
	}
	defer func() { _ = file.Close() }()
	prices, err := cost.ReadPrices(file)
	if err != nil {
		return prices, usagef("%s: %v", path, err)
	}
	return prices, nil
}

func printBill(out io.Writer, b *cost.Bill) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format+"\n", args...) }
	money := func(name string, l cost.Line) {
		line("%s\t%.2f\t%.2f\t%.3f\t%.3f\t", name, l.OnDemandMonth, l.ProvisionedMonth, l.OnDemandMillion, l.ProvisionedMillion)
	}
	line("\ton demand\tprovisioned\ton demand\tprovisioned\t")
	line("%s\ta month\ta month\tper million\tper million\t", b.Prices.Currency)
	money("DynamoDB writes", b.Writes)
	money("DynamoDB reads", b.Reads)
	money("DynamoDB storage", b.Storage)
	money("SQS requests", b.SQS)
	money("total", b.Total)
	money("Dynein's data path", b.Dynein)
	line("EventBridge Scheduler\t%.2f\t%.2f\t%.3f\t%.3f\t", b.EventBridge, b.EventBridge, b.EventBridgeMillion, b.EventBridgeMillion)
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, `
%s tasks/s are %s million tasks a month. A task takes %s write units, %s read units and %s SQS requests;
the idle fleet takes %s write units, %s read units and %s SQS requests a second.
Provisioned capacity for %s tasks/s at %.0f %% use: %.0f write and %.0f read units. It is cheaper than on demand from %.0f %% mean use on.
%s
Prices of %s, %s: %s. Not in it: the machines that run Kinesin, data transfer, backups.
`,
		decimal(b.Load.Rate, 6), decimal(b.TasksMonth/1e6, 6), decimal(b.PerTask.WriteUnits, 3), decimal(b.PerTask.ReadUnits, 3), decimal(b.PerTask.SQSRequests, 3),
		decimal(b.Idle.WriteUnits, 3), decimal(b.Idle.ReadUnits, 3), decimal(b.Idle.SQSRequests, 3),
		decimal(b.Load.PeakRate, 6), b.Load.Utilization*100, b.WriteUnits, b.ReadUnits, b.ProvisionedFrom*100,
		beatsText(b), b.Prices.Region, b.Prices.Date, b.Prices.Source)
	return err
}

// decimal formats a number with so many significant digits, without an exponent.
func decimal(x float64, digits int) string {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', digits, 64), 64)
	if err != nil {
		rounded = x
	}
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}

func beatsText(b *cost.Bill) string {
	if b.BeatsEventBridgeFrom == 0 {
		return "A load of this shape costs more than EventBridge Scheduler at any rate; what that lacks is in docs/reference/cost.md."
	}
	return fmt.Sprintf("A load of this shape costs less than EventBridge Scheduler from %s tasks/s on.", decimal(b.BeatsEventBridgeFrom, 3))
}
