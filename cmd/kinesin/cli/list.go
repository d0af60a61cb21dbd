package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/jsonform"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/task"
)

const listLimitDefault, listPageMax = 100, 1000

func (a *app) listCommand() *cobra.Command {
	q, limit := &kinesinv1.ListRequest{}, listLimitDefault
	c := &cobra.Command{
		Use:   "list [LAMBDA] [--state S] [--where FILTER] [--order due|-created|-ended] [--max-examined N] [--limit N]",
		Short: "List tasks",
		Long: fmt.Sprintf(`Lists the tasks of a lambda, or of all that you may read (docs/reference/filters.md describes filters). Ended tasks are listed until
their retention is over. With -o json it prints an object with the tasks as get prints them.

Live tasks come first, by when they are due, then ended ones, the newest first; with DynamoDB, or where tasks are very many, as the
store has them. --order due (live tasks), -created (the newest first) and -ended (ended ones) hold everywhere, at a price: the server
reads all tasks, or all ended ones, and refuses to read more than --max-examined rows.

States: %v.
On a terminal ids are shortened; -o wide, -o name and -o json have whole ones.`, task.States()),
		Example: `  kinesin list greet
  kinesin list --where 'error~"timeout"' --order -ended
  kinesin list greet --state dead --limit 0 -o json | jq -r '.tasks[].id'`,
		Args: optionalLambda, ValidArgsFunction: a.lambdas().complete(a),
	}
	f := c.Flags()
	f.StringVar(&q.Where, "where", "", whereUsage)
	f.Var(choiceValue{&q.Order, []string{string(sdk.OrderDue), string(sdk.OrderNewest), string(sdk.OrderNewestEnded)}}, "order", "`ORDER`: due, -created or -ended")
	f.Int64Var(&q.MaxExamined, "max-examined", 0, "how many rows the server may read for --order, at most 2000000; 0 for 200000")
	f.Var(choiceValue{&q.State, stateNames()}, "state", "only tasks in this `STATE`")
	f.Var(intValue{n: &limit}, "limit", "how many tasks to list at most; 0 for all")
	return a.watching(c, func(ctx context.Context, k *sdk.Client, args []string) error {
		if err := checkFilter(q.GetWhere()); err != nil {
			return err
		}
		q.Lambda = first(args)
		return a.list(ctx, over(k), q, limit)
	})
}

func stateNames() []string {
	names := make([]string, len(task.States()))
	for i, s := range task.States() {
		names[i] = s.String()
	}
	return names
}

// list prints at most so many tasks, 0: all, while it reads them page by page, so that its memory is bounded whatever
// their number.
func (a *app) list(ctx context.Context, c *calls, request *kinesinv1.ListRequest, limit int) error {
	out := bufio.NewWriter(a.Stdout)
	row, isJSON := listTable(out, request.GetLambda() == "", a.output == formatWide), a.json()
	array := arrayWriter{w: out}
	switch {
	case a.output == formatName:
		row = func(t *kinesinv1.Task) error {
			_, err := fmt.Fprintln(out, t.GetId())
			return err
		}
	case isJSON:
		row = func(t *kinesinv1.Task) error { return array.add(t) }
		fmt.Fprint(out, `{"tasks":`)
	}
	for n := 0; ; {
		if request.Limit = listPageMax; limit > 0 {
			request.Limit = int32(min(limit-n, listPageMax))
		}
		page, err := askSet(ctx, c, "list", c.Tasks.List, request)
		if err != nil {
			return errors.Join(err, out.Flush())
		}
		if a.output == formatText && isTerminal(a.stdout) {
			shortenIDs(page.GetTasks())
		}
		for _, t := range page.GetTasks() {
			if err := row(t); err != nil {
				return err
			}
		}
		n += len(page.GetTasks())
		if request.Cursor = page.GetNext(); len(request.GetCursor()) > 0 && (limit == 0 || n < limit) {
			a.line.say("%d tasks listed", n)
			continue
		}
		if isJSON {
			rest := jsonform.Append(nil, &kinesinv1.ListResponse{Next: page.GetNext()})
			err = array.end(strings.TrimPrefix(string(rest), `{"tasks":[]`))
		}
		return errors.Join(err, out.Flush())
	}
}

// shortenIDs leaves as much of ids as people need to name one of the tasks.
func shortenIDs(tasks []*kinesinv1.Task) {
	ids := make([]string, len(tasks))
	for i, t := range tasks {
		ids[i] = t.GetId()
	}
	chars := api.ShortIDChars(ids)
	for _, t := range tasks {
		t.Id = api.ShortID(t.GetId(), chars)
	}
}

// listTime prints milliseconds in UTC.
const listTime = "2006-01-02T15:04:05.000Z07:00"

// listTable returns a function that prints a task in a line, below a heading; with its lambda, if that is not
// the same for all, and with more columns if they are wanted.
func listTable(w io.Writer, withLambda, withMore bool) func(*kinesinv1.Task) error {
	line := func(lambda, state, priority, due, started, late, attempt, created, ended, collection, key, id string) error {
		before, more := "", ""
		if withLambda {
			before = fmt.Sprintf("%-15s ", lambda)
		}
		if withMore {
			more = fmt.Sprintf("  %-24s %-24s %-12s %-12s", created, ended, collection, key)
		}
		_, err := fmt.Fprintf(w, "%s%-17s %-8s %-24s %-24s %13s %3s%s  %s\n", before, state, priority, due, started, late, attempt, more, id)
		return err
	}
	instant := func(micros int64) string {
		if micros == 0 {
			return "-"
		}
		return time.UnixMicro(micros).UTC().Format(listTime)
	}
	begun := false
	return func(t *kinesinv1.Task) error {
		if !begun {
			begun = true
			if err := line("LAMBDA", "STATE", "PRIORITY", "DUE", "STARTED", "LATENESS", "ATT", "CREATED", "ENDED", "COLLECTION", "KEY", "ID"); err != nil {
				return err
			}
		}
		late := "-"
		if t.GetStarted() != 0 {
			late = millisText(t.GetStarted() - t.GetDue())
		}
		return line(t.GetLambda(), t.GetState(), t.GetPriority(), instant(t.GetDue()), instant(t.GetStarted()), late, strconv.Itoa(int(t.GetAttempt())),
			instant(t.GetCreated()), instant(t.GetEnded()), dash(t.GetCollection()), dash(t.GetKey()), strings.TrimRight(t.GetId()+"  "+tagsText(t.GetTags()), " "))
	}
}

func (a *app) countCommand() *cobra.Command {
	var where string
	var exact bool
	command := &cobra.Command{
		Use:   "count [LAMBDA] [--where FILTER] [--exact]",
		Short: "Count tasks",
		Long: `Counts the tasks that a filter selects, of those that you may read (docs/reference/filters.md describes filters). With DynamoDB,
where each row that is read costs money, the count is an estimate ("about") unless --exact asks for more.`,
		Example: `  kinesin count --where 'state=dead and error~"timeout"'
  kinesin count greet --where 'due<+1h' -o json`,
		Args: optionalLambda, ValidArgsFunction: a.lambdas().complete(a),
	}
	f := command.Flags()
	f.StringVar(&where, "where", "", whereUsage)
	f.BoolVar(&exact, "exact", false, "count each task, whatever it costs")
	return a.watching(command, func(ctx context.Context, k *sdk.Client, args []string) error {
		c, lambda := over(k), first(args)
		if err := checkFilter(where); err != nil {
			return err
		}
		filter, err := ofLambda(lambda, where)
		if err != nil {
			return err
		}
		if err := wantLambda(ctx, c, lambda); err != nil {
			return err
		}
		stop := a.waiting("counting")
		r, err := askSet(ctx, c, "count", c.Tasks.Count, &kinesinv1.CountRequest{Where: filter, Exact: exact})
		stop()
		if err != nil {
			return err
		}
		about := ""
		if !r.GetExact() {
			about = "about "
		}
		return a.print(r, "%s%d", about, r.GetCount())
	})
}
