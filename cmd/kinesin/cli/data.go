package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kinesin-io/kinesin/cmd/settings"
	"github.com/kinesin-io/kinesin/server"
)

func (a *app) dataCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "data",
		Short: "Check and repair the data directory of a stopped server",
		Long:  `Works on the files of the embedded store. No server may have the directory open.`,
	}, a.dataVerifyCommand(), a.dataSalvageCommand())
}

func (a *app) dataVerifyCommand() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:   "verify",
		Short: "Check a data directory",
		Long: `Reads all of a data directory, compares it with its checksums and checks every row. It changes nothing, and prints what it
finds. Exit 0 when the directory is sound. Exit 1 when it is not, when a server has it open, or when there is no store in
it.`,
		Example: `  kinesin data verify --data /var/lib/kinesin`,
		Args:    cobra.NoArgs,
	}
	dataFlag(c.Flags(), &dir)
	return a.acting(c, func(ctx context.Context, _ []string) error { return a.verifyData(ctx, dir) })
}

func (a *app) dataSalvageCommand() *cobra.Command {
	var dir, out string
	c := &cobra.Command{
		Use:   "salvage",
		Short: "Copy what can be read of a damaged data directory",
		Long: `Copies every row that can be read to a new data directory; only the rows of damaged blocks are lost. An older version of a
row may come back, so that its task runs again: prefer a backup. Prints a line for each loss. Exit 0 when the new directory
is consistent, whatever was lost.`,
		Example: `  kinesin data salvage --data /var/lib/kinesin --out /var/lib/kinesin-salvaged`,
		Args:    cobra.NoArgs,
	}
	dataFlag(c.Flags(), &dir)
	c.Flags().StringVar(&out, "out", "", "new `DIR`; must be empty or not exist")
	return a.acting(c, func(ctx context.Context, _ []string) error {
		if out == "" {
			return usagef("--out is missing: want a directory that is empty or does not exist")
		}
		return a.salvageData(ctx, dir, out)
	})
}

func dataFlag(f *pflag.FlagSet, dir *string) {
	f.StringVar(dir, "data", server.DataDirDefault, "`DIR` of the store")
	settings.Mark(f, "data")
}

// verifiedObject is the result of a check in JSON.
type verifiedObject struct {
	Sound bool     `json:"sound"`
	Wrong []string `json:"wrong"`
	server.DataCounts
}

func (a *app) verifyData(ctx context.Context, dir string) error {
	o := verifiedObject{Wrong: []string{}}
	stop := a.waiting("checking %q", dir)
	counts, err := server.VerifyData(ctx, dir, a.warnings(), a.each(&o.Wrong))
	stop()
	if err != nil {
		return err
	}
	o.DataCounts, o.Sound = counts, counts.Findings == 0
	if err := a.print(o, "%s", countsText(&counts)); err != nil {
		return err
	}
	if !o.Sound {
		return errReported
	}
	return nil
}

func countsText(c *server.DataCounts) string {
	summary := "sound"
	if c.Findings > 0 {
		summary = fmt.Sprintf("not sound, %d findings", c.Findings)
	}
	return fmt.Sprintf("%s: %d live tasks, %d ended, %d payload rows, %d control rows, %d wake-up rows and %d leftover rows; "+
		"%d data files (%d bytes), %d logs",
		summary, c.Live, c.Ended, c.Payloads, c.Controls, c.Wakeups, c.Leftovers, c.Tables, c.TableBytes, c.Logs)
}

// salvagedObject is the result of a salvage in JSON.
type salvagedObject struct {
	Data string   `json:"data"`
	Lost []string `json:"lost"`
	server.DataSalvaged
}

func (a *app) salvageData(ctx context.Context, dir, out string) error {
	o := salvagedObject{Data: out, Lost: []string{}}
	stop := a.waiting("copying what can be read of %q", dir)
	report, err := server.SalvageData(ctx, dir, out, a.warnings(), a.each(&o.Lost))
	stop()
	if err != nil {
		return err
	}
	o.DataSalvaged = report
	return a.print(o, "%s: %d task rows, %d wake-up rows, %d payload rows and %d control rows copied; %d wake-up rows created; %d losses",
		out, report.Tasks, report.Wakeups, report.Payloads, report.Controls, report.Woken, report.Losses)
}

// each returns a function that prints lines, or keeps them for a JSON result.
func (a *app) each(kept *[]string) func(line string) {
	if a.json() {
		return func(line string) { *kept = append(*kept, line) }
	}
	return func(line string) { fmt.Fprintln(a.Stdout, line) }
}
