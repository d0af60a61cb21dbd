package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/task"
)

const (
	topEveryDefault, topEveryMin = 2 * time.Second, 500 * time.Millisecond
	// topColumnsMin and topRowsMin are the least that is drawn for.
	topColumnsMin, topRowsMin = 80, 24
	// topWorkersMax bounds the lambdas whose workers are asked for, which is a call for each.
	topWorkersMax = 40
)

func (a *app) topCommand() *cobra.Command {
	every := topEveryDefault
	c := &cobra.Command{
		Use:   "top [--every D]",
		Short: "Watch the installation and its lambdas: what is late, what waits, what is coming",
		Long: `Shows in a terminal what the first page of the console does: what dies, lateness, what will be due, the store, and each
lambda with its rates, backlog, workers and what holds tasks back. q ends it; arrows scroll; l, n, w and f order by
lateness, name, what waits and failures. Without a terminal, or with -o json, it prints that once.`,
		Args: cobra.NoArgs,
	}
	c.Flags().Var(durationValue{d: &every, min: topEveryMin}, "every", "how often to look")
	return a.calling(c, func(ctx context.Context, k *sdk.Client, _ []string) error {
		if a.json() || !isTerminal(a.stdout) {
			seen, err := topLook(ctx, over(k))
			if err != nil {
				return err
			}
			m := topModel{seen: seen, columns: topColumnsMin, at: time.Now()}
			return a.print(seen, "%s", m.text(len(seen.GetLambdas())))
		}
		a.line.end()
		m := topModel{ctx: ctx, calls: over(k), every: every, columns: topColumnsMin, lines: topRowsMin}
		_, err := tea.NewProgram(&m, tea.WithContext(ctx), tea.WithOutput(a.stdout)).Run()
		if ctx.Err() == nil {
			return cmp.Or(m.fatal, err)
		}
		return nil
	})
}

// topLook reads what is shown.
func topLook(ctx context.Context, c *calls) (*kinesinv1.StatsResponse, error) {
	seen, err := askSet(ctx, c, "overview", c.Tasks.Stats, &kinesinv1.StatsRequest{Overview: true})
	if err != nil {
		return nil, err
	}
	rows := seen.GetLambdas()
	topOrder(rows, 'l')
	for _, s := range rows[:min(len(rows), topWorkersMax)] {
		r, err := askSet(ctx, c, "get lambda", c.Lambdas.GetLambda, &kinesinv1.GetLambdaRequest{Name: s.GetLambda(), Live: true})
		if live := r.GetLambda().GetLive(); err == nil && live != nil {
			s.Workers, s.HeldBy = live.Workers, live.GetHeldBy() //nolint:protogetter // workers that are not known stay so
		}
	}
	return seen, nil
}

// topOrder sorts by lateness (l), name (n), what waits (w) or failures (f).
func topOrder(rows []*kinesinv1.LambdaStats, by rune) {
	slices.SortStableFunc(rows, func(a, b *kinesinv1.LambdaStats) int {
		order := 0
		switch by {
		case 'l':
			order = cmp.Or(cmp.Compare(b.GetLatenessP99(), a.GetLatenessP99()), compareDue(a.GetOldestDue(), b.GetOldestDue()))
		case 'w':
			order = cmp.Compare(topWaits(b), topWaits(a))
		case 'f':
			order = cmp.Compare(b.GetFailedPerSecond(), a.GetFailedPerSecond())
		}
		return cmp.Or(order, cmp.Compare(a.GetLambda(), b.GetLambda()))
	})
}

// compareDue puts the time that is longest ago first, and none last.
func compareDue(a, b int64) int { return cmp.Compare(uint64(a-1), uint64(b-1)) }

func topWaits(s *kinesinv1.LambdaStats) int64 {
	return tasksIn(s, scheduledStates...) + tasksIn(s, queuedStates...)
}

func topRuns(s *kinesinv1.LambdaStats) int64 { return tasksIn(s, runningStates...) }

const topKeys = "q ends; arrows scroll; l lateness, n name, w what waits, f failures first"

// topModel is the state of the screen.
type topModel struct {
	ctx   context.Context //nolint:containedctx // of the program that the model belongs to
	calls *calls
	every time.Duration

	seen           *kinesinv1.StatsResponse
	at             time.Time // of seen
	failed         error     // the last look
	fatal          error     // the first one failed
	order          rune
	first          int // row that is shown
	columns, lines int
}

type (
	topLooked struct {
		seen *kinesinv1.StatsResponse
		err  error
	}
	topTick struct{}
)

// Init implements tea.Model, as do the other methods.
func (m *topModel) Init() tea.Cmd { return m.look }

func (m *topModel) look() tea.Msg {
	seen, err := topLook(m.ctx, m.calls)
	return topLooked{seen, err}
}

// Update takes what has happened.
func (m *topModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.columns, m.lines = max(msg.Width, topColumnsMin), max(msg.Height, topRowsMin)
	case tea.KeyPressMsg:
		return m, m.pressed(msg.String())
	case topTick:
		return m, m.look
	case topLooked:
		if msg.err != nil && m.at.IsZero() {
			m.fatal = msg.err
			return m, tea.Quit
		}
		if m.failed = msg.err; msg.err == nil {
			m.seen, m.at = msg.seen, time.Now()
			topOrder(m.seen.GetLambdas(), cmp.Or(m.order, 'l'))
		}
		return m, tea.Tick(m.every, func(time.Time) tea.Msg { return topTick{} })
	}
	return m, nil
}

// pressed acts on a key.
func (m *topModel) pressed(key string) tea.Cmd {
	switch key {
	case "q", "ctrl+c", "esc":
		return tea.Quit
	case "l", "n", "w", "f":
		m.order = rune(key[0])
		topOrder(m.seen.GetLambdas(), m.order)
	case "down", "j":
		m.first++
	case "up", "k":
		m.first--
	case "pgdown":
		m.first += m.room()
	case "pgup":
		m.first -= m.room()
	}
	m.first = max(0, min(m.first, len(m.seen.GetLambdas())-m.room()))
	return nil
}

// room returns how many lambdas fit.
func (m *topModel) room() int { return m.lines - len(topHead(m.seen)) - 3 }

// View draws the screen.
func (m *topModel) View() tea.View {
	v := tea.NewView(m.text(m.room()))
	v.AltScreen = true
	return v
}

// text draws so many lambdas. No line is wider than the terminal.
func (m *topModel) text(most int) string {
	lines := append(topHead(m.seen), "", topLine("LAMBDA", "P99", "OLDEST", "START/S", "END/S", "FAIL/S", "WAIT", "RUN", "WORK", "HELD BY", m.columns))
	last := min(len(m.seen.GetLambdas()), m.first+most)
	for i := min(m.first, last); i < last; i++ {
		lines = append(lines, m.line(m.seen.GetLambdas()[i]))
	}
	switch {
	case m.failed != nil:
		lines = append(lines, "cannot read: "+m.failed.Error())
	case len(m.seen.GetLambdas()) == 0 && !m.at.IsZero():
		lines = append(lines, "there are no lambdas yet: kinesin lambda create NAME")
	case m.at.IsZero():
		lines = append(lines, "reading …")
	case m.lines > 0: // not of the text without a terminal
		lines = append(lines, topKeys)
	}
	for i, line := range lines {
		lines[i] = topCut(line, m.columns)
	}
	return strings.Join(lines, "\n")
}

func (m *topModel) line(s *kinesinv1.LambdaStats) string {
	oldest, workers := "-", "-"
	if due := time.UnixMicro(s.GetOldestDue()); s.GetOldestDue() != 0 && m.at.After(due) {
		oldest = topDuration(m.at.Sub(due))
	}
	if s.Workers != nil {
		workers = strconv.FormatInt(s.GetWorkers(), 10)
	}
	var held []string
	for _, h := range s.GetHeldBy() {
		if !slices.Contains(held, h.GetReason()) {
			held = append(held, h.GetReason())
		}
	}
	return topLine(s.GetLambda(), topDuration(task.Micros(s.GetLatenessP99())), oldest, topRate(s.GetStartedPerSecond()), topRate(s.GetEndedPerSecond()),
		topRate(s.GetFailedPerSecond()), topCount(topWaits(s)), topCount(topRuns(s)), workers, cmp.Or(strings.Join(held, ", "), "-"), m.columns)
}

// topLine lays out a line. The name gets the columns that the terminal has beyond 80.
func topLine(lambda, late, oldest, started, ended, failed, waits, runs, workers, held string, columns int) string {
	name := min(16+columns-topColumnsMin, 48)
	return fmt.Sprintf("%s %7s %7s %7s %6s %6s %6s %5s %4s %s", topPad(lambda, name), late, oldest, started, ended, failed, waits, runs, workers, held)
}

func topPad(text string, width int) string {
	text = topCut(text, width)
	return text + strings.Repeat(" ", width-len([]rune(text)))
}

// topCut shortens a text to a width. Names come from others, and may hold what a terminal obeys.
func topCut(text string, width int) string {
	runes := []rune(api.Visible(text))
	if len(runes) > width {
		return string(runes[:width-1]) + "…"
	}
	return string(runes)
}

func topRate(r float64) string {
	if r >= 100 || r == 0 {
		return topCount(int64(r + 0.5))
	}
	return strconv.FormatFloat(r, 'f', 1, 64)
}

func topCount(n int64) string {
	switch {
	case n >= 10_000_000:
		return strconv.FormatInt(n/1_000_000, 10) + "M"
	case n >= 10_000:
		return strconv.FormatInt(n/1000, 10) + "k"
	}
	return strconv.FormatInt(n, 10)
}

func topDuration(d time.Duration) string {
	switch {
	case d == 0:
		return "-"
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
	case d < time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "s"
	case d < 2*time.Hour:
		return strconv.Itoa(int(d.Minutes())) + "m"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d.Hours())) + "h"
	}
	return strconv.Itoa(int(d.Hours()/24)) + "d"
}

func (a *app) statsCommand() *cobra.Command {
	return a.stats().listCommand(a, &cobra.Command{
		Use:   "stats [LAMBDA]",
		Short: "Show what lives and runs, by lambda",
		Long: `Shows for each lambda its live tasks by state, how overdue the oldest is, rates and lateness of the last minute, how many tasks
died in the last hour and day, and what holds tasks back. Rates and lateness are those of the server that answers. With
DynamoDB numbers of tasks are estimates, marked by a ~.`,
		Args: optionalLambda, ValidArgsFunction: a.lambdas().complete(a),
	}, func(ctx context.Context, c *calls, args []string) (proto.Message, error) {
		return askSet(ctx, c, "stats", c.Tasks.Stats, &kinesinv1.StatsRequest{Lambda: first(args)})
	})
}

// The states of live tasks, as they are counted.
var (
	scheduledStates = []sdk.State{sdk.StateScheduled, sdk.StateRetriableFailure}
	queuedStates    = []sdk.State{sdk.StateEnqueued}
	runningStates   = []sdk.State{sdk.StateClaimed, sdk.StateProcessing, sdk.StateAcquired}
)

// tasksIn counts the live tasks in some states.
func tasksIn(s *kinesinv1.LambdaStats, states ...sdk.State) (n int64) {
	for _, state := range states {
		n += s.GetTasks()[string(state)]
	}
	return n
}

// topHead returns the lines above the lambdas: rates, lateness, what will be due, and the state of the
// installation, as far as the caller may see them.
func topHead(seen *kinesinv1.StatsResponse) []string {
	var started, ended, failed float64
	var waits, runs, deadHour, deadDay int64
	for _, s := range seen.GetLambdas() {
		started, ended, failed = started+s.GetStartedPerSecond(), ended+s.GetEndedPerSecond(), failed+s.GetFailedPerSecond()
		waits, runs = waits+topWaits(s), runs+topRuns(s)
		deadHour, deadDay = deadHour+s.GetDeadHour(), deadDay+s.GetDeadDay()
	}
	lines := []string{
		fmt.Sprintf("kinesin  %d lambdas  started %s/s  ended %s/s  failed %s/s  waiting %s  running %s", len(seen.GetLambdas()),
			topRate(started), topRate(ended), topRate(failed), topCount(waits), topCount(runs)),
		fmt.Sprintf("dead  1h %d  1d %d", deadHour, deadDay),
	}
	o := seen.GetOverview()
	if len(o.GetWindows()) > 0 {
		late := []string{"late p50/95/99"}
		for _, w := range o.GetWindows() {
			late = append(late, fmt.Sprintf("%s %s/%s/%s", topSpan(w.GetAsked()), topLate(w, w.GetLatenessP50()), topLate(w, w.GetLatenessP95()), topLate(w, w.GetLatenessP99())))
		}
		lines = append(lines, strings.Join(late, "  "), topEnded(o.GetWindows()[0].GetEndedPerSecond()))
	}
	lines = append(lines, topDue(o.GetDue()))
	if o.GetInstallation() != nil {
		lines = append(lines, topInstallation(o.GetInstallation()))
	}
	return lines
}

func topLate(w *kinesinv1.OverviewWindow, late int64) string {
	if w.GetStartedPerSecond() == 0 {
		return "-"
	}
	return cmp.Or(strings.TrimPrefix(topDuration(task.Micros(late)), "-"), "0")
}

// topSpan is a whole number of minutes, hours or one day.
func topSpan(micros int64) string {
	switch d := task.Micros(micros); {
	case d >= 24*time.Hour:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	case d >= time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	}
}

// topEnded shows how tasks ended in the last minute, most first.
func topEnded(ended map[string]float64) string {
	states := slices.SortedFunc(maps.Keys(ended), func(a, b string) int { return cmp.Or(cmp.Compare(ended[b], ended[a]), cmp.Compare(a, b)) })
	facts := []string{"ended/s"}
	for _, state := range states {
		facts = append(facts, state+" "+topRate(ended[state]))
	}
	if len(states) == 0 {
		facts = append(facts, "none in the last minute")
	}
	return strings.Join(facts, "  ")
}

func topDue(due []*kinesinv1.DueSoon) string {
	facts := []string{"due in"}
	for _, d := range due {
		count := topCount(d.GetTasks())
		switch {
		case d.GetAtLeast():
			count = "≥" + count
		case d.GetError() > 0:
			count += "±" + topCount(d.GetError())
		}
		facts = append(facts, topSpan(d.GetWithin())+" "+count)
	}
	if len(due) == 0 {
		facts = append(facts, "not known for now")
	}
	return strings.Join(facts, "  ")
}

// topInstallation says first what is wrong.
func topInstallation(i *kinesinv1.Installation) string {
	store := "takes tasks"
	switch {
	case i.GetStoreFull():
		store = "FULL, takes no new tasks"
	case i.GetStoreDamaged():
		store = "DAMAGED files"
	}
	owner := "none without an owner"
	if i.GetUnownedPartitions() > 0 {
		owner = fmt.Sprintf("%d WITHOUT AN OWNER", i.GetUnownedPartitions())
	}
	line := fmt.Sprintf("store %s  %s of %d partitions  workers %d  servers %d", store, owner, i.GetPartitions(), i.GetWorkers(), i.GetServers())
	if i.GetNotReady() != "" {
		line = "NOT READY: " + i.GetNotReady() + "  " + line
	}
	return line
}
