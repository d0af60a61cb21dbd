// Command awslocal runs DynamoDB Local and ElasticMQ. Without arguments it prints the environment that
// lets kinesin use them and keeps them until it is interrupted; with arguments it runs that command, whose
// tests find the emulators in their environment, and ends with it. It is for tests and for trying things
// out, never for production.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kinesin-io/kinesin/internal/awslocal"
)

const usage = `usage: awslocal [flags] [command [argument ...]]

Runs DynamoDB Local and ElasticMQ until it is interrupted, or, given a command, while that runs.
`

// commandEndMax is how long an interrupted command may take to end before it is killed.
const commandEndMax = 10 * time.Second

func main() { os.Exit(status(run(os.Args[1:], os.Stdout, os.Stderr), os.Stderr)) }

// status is that of the command, where there is one.
func status(err error, stderr io.Writer) int {
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return max(1, exit.ExitCode())
	} else if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	_, _ = fmt.Fprintln(stderr, "awslocal:", err)
	return 1
}

func run(args []string, stdout, stderr io.Writer) error {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	// `go run` and make do not pass on that they were told to end.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGTERM), 0, 0, 0); err != nil {
		return fmt.Errorf("ask to end with the parent: %w", err)
	}
	var dynamo, sqs awslocal.Options
	flags := flag.NewFlagSet("awslocal", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { _, _ = fmt.Fprint(stderr, usage); flags.PrintDefaults() }
	flags.StringVar(&dynamo.DBPath, "db", "", "`folder` in which DynamoDB Local keeps its data (default: in memory)")
	flags.IntVar(&dynamo.Port, "dynamodb-port", 0, "`port` of DynamoDB Local (default: a free one)")
	flags.IntVar(&sqs.Port, "sqs-port", 0, "`port` of ElasticMQ (default: a free one)")
	flags.IntVar(&dynamo.HeapMiB, "heap", 0, "Java heap of each in `MiB` (default 256)")
	jvm := flags.String("jvm", "", "more `options` of Java, such as -XX:TieredStopAtLevel=4: slower to start, half as fast again after a minute")
	if err := flags.Parse(args); err != nil {
		return err
	}
	dynamo.JVM = strings.Fields(*jvm)
	sqs.HeapMiB, sqs.JVM = dynamo.HeapMiB, dynamo.JVM

	pair, err := awslocal.Launch(ctx, dynamo, sqs)
	if err != nil {
		return err
	}
	defer pair.Close()
	if flags.NArg() > 0 {
		return runWith(ctx, pair, flags.Args())
	}
	show(pair, stdout, stderr)
	<-ctx.Done()
	return nil
}

// show puts what a shell can read on standard output, and the rest elsewhere.
func show(pair *awslocal.Pair, stdout, stderr io.Writer) {
	_, _ = fmt.Fprintln(stderr, "DynamoDB Local and ElasticMQ are running. Stop them with Ctrl-C; what is in memory is gone then.\n"+
		"DynamoDB Local listens on all interfaces of this machine, without credentials. For tests only.\n"+
		"In another shell:")
	for _, line := range pair.Exports() {
		_, _ = fmt.Fprintln(stdout, "export "+line)
	}
}

// runWith ends with the command's own exit status. An interrupt is left to the command, which gets it too.
func runWith(ctx context.Context, pair *awslocal.Pair, args []string) error {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), awslocal.EnvDynamoDB+"="+pair.DynamoDB, awslocal.EnvSQS+"="+pair.SQS)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = commandEndMax
	return cmd.Run()
}
