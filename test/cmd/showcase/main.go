// Showcase fills a running server with the installation of package showcase, and runs its workers until it is
// interrupted. Then the console has something to tell: go run ./test/cmd/showcase -tasks 2000000.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/test/showcase"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	server := flag.String("server", "http://127.0.0.1:7070", "server")
	tasks := flag.Int("tasks", 100_000, "tasks to schedule; 0: only run those that are there")
	killed := flag.Bool("killed", false, "be a worker of the lambda whose task kills it")
	flag.Parse()
	client, err := sdk.NewClient(*server)
	if err != nil {
		return err
	}
	defer client.Close()
	if *killed {
		return showcase.WorkUntilKilled(ctx, client)
	}
	if *tasks > 0 {
		began := time.Now()
		made, err := showcase.Fill(ctx, client, *tasks, began)
		if err != nil {
			return err
		}
		fmt.Printf("%d tasks in %s\nlate by a quota: %s\npaused: %s\nbehind others of its lambda: %s\nkills its worker: %s\n%d of customer %s die of a timeout, %d are due at %s\nConsole: %s/ui/\n",
			*tasks, time.Since(began).Round(time.Millisecond), made.Late, made.Paused, made.Noisy, made.Poison, made.Dead, showcase.Customer, made.AtMidnight, made.Midnight.Format(time.RFC3339), *server)
	}
	go func() {
		for ; ctx.Err() == nil; time.Sleep(time.Second) { // as often as it is killed
			_ = exec.CommandContext(ctx, os.Args[0], "-killed", "-server", *server).Run()
		}
	}()
	return showcase.Work(ctx, client)
}
