package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/server"
)

func (a *app) dataCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "data",
		Short: "Look after the data directory of a server that is stopped",
		Long: `Works on the embedded store's files themselves, so no server may have the directory open. 'kinesin data verify' reads all of it and says what is
wrong, and 'kinesin data salvage' copies what can still be read to a new directory.`,
	}
	c.AddCommand(a.dataVerifyCommand(), a.dataSalvageCommand())
	group(c)
	return c
}

func (a *app) dataVerifyCommand() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:   "verify",
		Short: "Read all of a data directory and say what is wrong",
		Long: `Reads the manifest, the logs and every block of every data file, compares them with their checksums and with what was noted of them, and
checks every row: a live task has its wake-up row and its payload, one that has ended its place in the order of expiry. It changes nothing.

Prints one line for each thing that is wrong, and what it counted. Exit 0 when all is sound, 1 when something is wrong, when a server
has the directory open, or when there is no store in it.`,
		Example: `  kinesin data verify --data /var/lib/kinesin`,
		Args:    cobra.NoArgs,
	}
	c.RunE = does(func(ctx context.Context, _ []string) error { return a.verifyData(ctx, dir) })
	a.dataFlags(c, &dir)
	return c
}

func (a *app) dataSalvageCommand() *cobra.Command {
	var dir, out string
	c := &cobra.Command{
		Use:   "salvage",
		Short: "Copy what can still be read of a damaged data directory to a new one",
		Long: `Copies every row that can be read to a new data directory, and changes nothing in the old one. A damaged block takes only its own rows with it. Where the
newest state of a row is lost an older one is taken, so that a task may run again. Wake-up rows of live tasks that lost theirs are made anew.

A backup is better where there is one. Prints one line for each loss, and what it copied. Exit 0 when the new directory is complete in itself,
whatever was lost; start a server with it, or look at it with 'kinesin data verify' first.`,
		Example: `  kinesin data salvage --data /var/lib/kinesin --out /var/lib/kinesin-salvaged`,
		Args:    cobra.NoArgs,
	}
	c.RunE = does(func(ctx context.Context, _ []string) error {
		if out == "" {
			return usagef("--out is missing: want a directory that is empty or not there")
		}
		return a.salvageData(ctx, dir, out)
	})
	a.dataFlags(c, &dir)
	c.Flags().StringVar(&out, "out", "", "new `DIR`; empty, or not there")
	return c
}

func (a *app) dataFlags(c *cobra.Command, dir *string) {
	c.Flags().StringVar(dir, "data", server.DataDirDefault, "`DIR` of the store")
	settings(c.Flags(), "data")
	a.outputFlag(c.Flags())
}

// dataLog passes on what goes wrong and is no finding.
func (a *app) dataLog() *slog.Logger {
	return slog.New(slog.NewTextHandler(a.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// verifiedObject is the result of a check.
type verifiedObject struct {
	Sound bool     `json:"sound"`
	Wrong []string `json:"wrong"`
	server.DataCounts
}

func (a *app) verifyData(ctx context.Context, dir string) error {
	o := verifiedObject{Wrong: []string{}}
	counts, err := server.VerifyData(ctx, dir, a.dataLog(), a.each(&o.Wrong))
	if err != nil {
		return err
	}
	if o.DataCounts, o.Sound = counts, counts.Findings == 0; a.json() {
		err = printJSON(a.Stdout, o)
	} else {
		err = printCounts(a.Stdout, &counts)
	}
	if err == nil && !o.Sound {
		err = errReported
	}
	return err
}

func printCounts(w io.Writer, c *server.DataCounts) error {
	verdict := "sound"
	if c.Findings > 0 {
		verdict = fmt.Sprintf("not sound, %d findings", c.Findings)
	}
	_, err := fmt.Fprintf(w, "%s: %d live tasks, %d ended, %d payload rows, %d control rows, %d wake-up rows and %d leftover rows; %d data files (%d bytes), %d logs\n",
		verdict, c.Live, c.Ended, c.Payloads, c.Controls, c.Wakeups, c.Leftovers, c.Tables, c.TableBytes, c.Logs)
	return err
}

// salvagedObject is the result of a salvage.
type salvagedObject struct {
	Data string   `json:"data"`
	Lost []string `json:"lost"`
	server.DataSalvaged
}

func (a *app) salvageData(ctx context.Context, dir, out string) error {
	o := salvagedObject{Data: out, Lost: []string{}}
	report, err := server.SalvageData(ctx, dir, out, a.dataLog(), a.each(&o.Lost))
	if err != nil {
		return err
	}
	if o.DataSalvaged = report; a.json() {
		return printJSON(a.Stdout, o)
	}
	_, err = fmt.Fprintf(a.Stdout, "%s: %d task rows, %d wake-up rows, %d payload rows and %d control rows copied; %d wake-up rows made anew; %d losses\n",
		out, report.Tasks, report.Wakeups, report.Payloads, report.Controls, report.Woken, report.Losses)
	return err
}

// each prints lines as they come, or keeps them for a JSON result.
func (a *app) each(kept *[]string) func(line string) {
	if a.json() {
		return func(line string) { *kept = append(*kept, line) }
	}
	return func(line string) { fmt.Fprintln(a.Stdout, line) }
}
