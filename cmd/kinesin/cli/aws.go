package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kinesin-io/kinesin/server"
)

// awsPrefixFlag is the flag of all commands that name tables and queues.
func awsPrefixFlag(f *pflag.FlagSet, prefix *string) {
	f.StringVar(prefix, "aws-prefix", "", "`PREFIX` of the names of all tables and queues: 1 to 20 characters of a-z, A-Z, 0-9, - and _")
	settings(f, "aws-prefix")
}

func (a *app) awsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "aws",
		Short: "Prepare DynamoDB and SQS",
		Long: `What 'kinesin serve --store dynamodb --queue sqs' needs on AWS. Region, credentials and endpoints come from where the SDK of AWS looks for them:
AWS_REGION, AWS_PROFILE, AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL_DYNAMODB, AWS_ENDPOINT_URL_SQS and so on.`,
	}
	c.AddCommand(a.awsSetupCommand())
	group(c)
	return c
}

func (a *app) awsSetupCommand() *cobra.Command {
	var prefix string
	var dryRun bool
	c := &cobra.Command{
		Use:   "setup",
		Short: "Create tables and queues",
		Long: `Creates the tables PREFIX-schedule, -tasks, -payloads and -control with their indexes and TTL, the queue PREFIX-inbound, and the queues of the lambdas
that exist, and waits until they can be used; those of lambdas that Terraform registered are Terraform's, and only looked at. What is there already stays; attributes of queues that differ are set. It may be repeated, and never
deletes anything. A table that is there with another key cannot be used: then nothing is changed (exit 3).`,
		Example: `  kinesin aws setup --aws-prefix prod --dry-run
  kinesin aws setup --aws-prefix prod`,
		Args: cobra.NoArgs,
	}
	awsPrefixFlag(c.Flags(), &prefix)
	c.Flags().BoolVar(&dryRun, "dry-run", false, "only print every table and queue, and what would be done")
	c.RunE = does(func(ctx context.Context, _ []string) error {
		if prefix == "" {
			return usagef("--aws-prefix is missing: it begins the names of all tables and queues, such as prod")
		}
		report, err := server.SetupAWS(ctx, prefix, dryRun, slog.New(slog.NewTextHandler(a.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
		if errors.Is(err, server.ErrConfig) {
			return usagef("%v", err)
		}
		if len(report.Items) > 0 {
			err = errors.Join(err, a.printSetup(&report))
		}
		return awsFailure(err)
	})
	a.outputFlag(c.Flags())
	return c
}

// awsFailure marks an error that lasts until somebody changes something.
func awsFailure(err error) error {
	if server.Lasting(err) {
		return &lasting{err}
	}
	return err
}

// lasting is a failure with an exit code of its own, so that who restarts a process can tell it from one that
// may pass.
type lasting struct{ error }

func (l *lasting) Unwrap() error { return l.error }

func (a *app) printSetup(r *server.SetupReport) error {
	if a.json() {
		return printJSON(a.Stdout, r)
	}
	t := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	for i := range r.Items {
		item := &r.Items[i]
		fmt.Fprintf(t, "%s\t%s\t%s\n", item.Kind, item.Name, setupWord(item, r.DryRun))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for i := range r.Items {
		if err := printSetupDetails(a.Stdout, &r.Items[i], r.DryRun); err != nil {
			return err
		}
	}
	return nil
}

func setupWord(item *server.SetupItem, dryRun bool) string {
	switch {
	case item.Lambda != "" && item.Outcome == server.SetupMissing:
		return fmt.Sprintf("missing: made by Terraform; apply the module call of lambda %s, or put it back and apply", item.Lambda)
	case item.Lambda != "":
		return item.Outcome + ": made by Terraform"
	case dryRun && item.Outcome == server.SetupMissing:
		return "missing: would be created"
	}
	return item.Outcome
}

// printSetupDetails says what differs, and in a dry run what the thing has to be.
func printSetupDetails(w io.Writer, item *server.SetupItem, dryRun bool) error {
	var lines []string
	if item.Outcome == server.SetupDiffers || item.Outcome == server.SetupChanged {
		lines = append(lines, item.Differences...)
	}
	if dryRun {
		lines = append(lines, item.SpecText())
	}
	if len(lines) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "\n%s %s\n  %s\n", item.Kind, item.Name, strings.Join(lines, "\n  "))
	return err
}
