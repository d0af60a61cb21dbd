package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kinesin-io/kinesin/cmd/settings"
	"github.com/kinesin-io/kinesin/server"
)

// awsPrefixFlag adds the flag for the names of tables and queues.
func awsPrefixFlag(f *pflag.FlagSet, prefix *string) {
	f.StringVar(prefix, "aws-prefix", "", "`PREFIX` of all tables and queues, one for each installation: 1 to 20 characters of a-z, A-Z, 0-9, - and _")
	settings.Mark(f, "aws-prefix")
}

// queuePoliciesFlag adds the flag for the policies of new queues.
func queuePoliciesFlag(f *pflag.FlagSet, on *bool) {
	f.BoolVar(on, "queue-policies", true, "give SQS queues a policy that denies requests without TLS and from other accounts")
	settings.Mark(f, "queue-policies")
}

func (a *app) awsCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "aws",
		Short: "Prepare DynamoDB and SQS",
		Long: `Prepares AWS for 'kinesin serve --store dynamodb --queue sqs'. Region, credentials and endpoints are those of the AWS SDK:
AWS_REGION, AWS_PROFILE, AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL_DYNAMODB, AWS_ENDPOINT_URL_SQS and so on.`,
	}, a.awsSetupCommand())
}

func (a *app) awsSetupCommand() *cobra.Command {
	var setup server.SetupConfig
	var policies bool
	c := &cobra.Command{
		Use:   "setup",
		Short: "Create tables and queues",
		Long: `Creates the tables PREFIX-schedule, -tasks, -payloads and -control, the queues PREFIX-inbound and -inbound-dlq, and the
queues of existing lambdas. It never deletes anything and may be repeated: it sets what is missing or differs; queues of
lambdas that Terraform registered it only checks. If a table exists with another key, nothing is changed (exit 3).`,
		Example: `  kinesin aws setup --aws-prefix prod --dry-run
  kinesin aws setup --aws-prefix prod`,
		Args: cobra.NoArgs,
	}
	awsPrefixFlag(c.Flags(), &setup.Prefix)
	queuePoliciesFlag(c.Flags(), &policies)
	c.Flags().BoolVar(&setup.DryRun, "dry-run", false, "only print every table and queue, and what would change")
	return a.acting(c, func(ctx context.Context, _ []string) error {
		if setup.Prefix == "" {
			return usagef("--aws-prefix is missing: want the prefix of the names of all tables and queues, such as prod")
		}
		setup.NoQueuePolicies, setup.Log = !policies, a.warnings()
		stopLine := a.waiting("looking at tables and queues")
		report, err := server.SetupAWS(ctx, setup)
		stopLine()
		if len(report.Items) > 0 {
			err = errors.Join(err, a.printSetup(&report))
		}
		return explainServer(err)
	})
}

// explainServer marks the errors of package server that are bad usage, and those that last until somebody
// changes the environment.
func explainServer(err error) error {
	switch {
	case errors.Is(err, server.ErrConfig):
		return usagef("%v", err)
	case server.Lasting(err):
		return &lasting{err}
	}
	return err
}

// lasting is a failure that ends the process with exitSetup, so that supervisors can tell it from one that
// may pass.
type lasting struct{ error }

func (l *lasting) Unwrap() error { return l.error }

func (a *app) printSetup(r *server.SetupReport) error {
	if a.json() {
		return printJSON(a.Stdout, r)
	}
	t := newTable(a.Stdout)
	for i := range r.Items {
		item := &r.Items[i]
		t.row(item.Kind, item.Name, setupText(item, r.DryRun))
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

func setupText(item *server.SetupItem, dryRun bool) string {
	switch {
	case item.Lambda != "" && item.Outcome == server.SetupMissing:
		return fmt.Sprintf("missing: managed by Terraform; apply the module call of lambda %s, or restore the call and apply", item.Lambda)
	case item.Lambda != "":
		return item.Outcome + ": managed by Terraform"
	case dryRun && item.Outcome == server.SetupMissing:
		return "missing: would be created"
	}
	return item.Outcome
}

// printSetupDetails prints the differences of a table or queue and, in a dry run, its wanted settings.
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
