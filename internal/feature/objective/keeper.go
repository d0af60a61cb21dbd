package objective

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// KeepEvery is how often counts are stored, and objectives and the counts of others read.
	KeepEvery = time.Minute
	// kindPrefix and kindForm make the kind of the rows with the counts of a day.
	kindPrefix, kindForm = "started-", "2006-01-02"
	// settledAfter is how long after a day's end its rows do not change any more.
	settledAfter = time.Hour
	// lambdasCountedMax bounds the lambdas of a row of counts: it has no deaths of others.
	lambdasCountedMax = 5000
	// deadOver is the longest time over which deaths are told.
	deadOver = 24 * time.Hour
)

// Config is what a Keeper is made of.
type Config struct {
	Rows  store.ControlRows
	Clock clock.Clock
	Log   *slog.Logger
	// Exists reports whether there is a lambda.
	Exists func(ref uint32) bool
	// Late counts the tasks of the partitions of this process that are late for an objective and have not
	// started; nil: it has no partitions.
	Late func(context.Context, *Objective) (int64, error)
	// Shared says that other processes have partitions too.
	Shared bool
}

// Keeper counts starts and knows the counts of the fleet. It is safe for concurrent use.
type Keeper struct {
	Config

	process string // names this process in its rows

	book *control.Book[Objective]
	copy *control.Copy[map[uint32]*Objective] // by the reference of their lambda

	mu    sync.Mutex
	hours map[int64]*hourRow // of this process, by hours since 1970
	swept string             // the day at which old rows were last deleted

	reading sync.Mutex           // one reads days at a time
	known   sync.Mutex           // guards days and waits, and is never held while rows are read
	days    map[string]dayCounts // of the fleet, as stored
	waits   map[uint32]int64     // of the fleet: tasks that are late and have not started

	looking lookout
}

// hourRow has the counts of an hour, by the reference of their lambda.
type hourRow struct {
	counts  map[uint32]Count
	version uint64
	changed bool
}

// dayCounts has the counts of a day by hour and lambda.
type dayCounts struct {
	settled bool
	hours   map[int64]map[uint32]Count
}

// New returns a keeper without objectives; Run fills it.
func New(c Config) *Keeper {
	k := &Keeper{
		Config: c, process: fmt.Sprintf("%016x", c.Clock.Uint64()),
		hours: map[int64]*hourRow{}, days: map[string]dayCounts{}, book: control.NewBook(c.Rows, asRows, c.Clock),
	}
	k.copy = control.CopyOf(&asRows, c.Rows, c.Clock, c.Log, byRef)
	return k
}

// Run stores and reads counts until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		err := k.Refresh(ctx)
		if err == nil {
			err = errors.Join(k.Flush(ctx), k.readDays(ctx), k.look(ctx), k.sweep(ctx))
		}
		if err != nil && ctx.Err() == nil {
			k.Log.WarnContext(ctx, "objectives not brought up to date; trying again", slog.Any("error", err))
		}
		_ = clock.Sleep(ctx, k.Clock, KeepEvery)
	}
	return nil
}

// Started counts a start, or an end without one, so late after the due time. It costs next to nothing for a
// lambda without an objective, which is not counted.
func (k *Keeper) Started(lambda uint32, late time.Duration) (counted, inTime bool) {
	o := k.copy.Value()[lambda]
	if o == nil {
		return false, false
	}
	c := Count{Started: 1}
	if late <= o.Within {
		c.Good = 1
	}
	k.count(lambda, c)
	return true, c.Good > 0
}

// Died counts a task that died, of a lambda with or without an objective.
func (k *Keeper) Died(lambda uint32) { k.count(lambda, Count{Dead: 1}) }

func (k *Keeper) count(lambda uint32, c Count) {
	k.mu.Lock()
	defer k.mu.Unlock()
	hour := hourOf(k.Clock.Now())
	row := k.hours[hour]
	if row == nil {
		row = &hourRow{counts: map[uint32]Count{}}
		k.hours[hour] = row
	}
	if _, counted := row.counts[lambda]; counted || c.Started > 0 || len(row.counts) < lambdasCountedMax {
		row.counts[lambda], row.changed = row.counts[lambda].plus(c), true
	}
}

func hourOf(at task.Instant) int64 { return at.Time().Unix() / 3600 }

func dayOf(hour int64) string { return kindPrefix + time.Unix(hour*3600, 0).UTC().Format(kindForm) }

// Refresh reads the objectives.
func (k *Keeper) Refresh(ctx context.Context) error { return k.copy.Refresh(ctx) }

func byRef(objectives []*Objective) map[uint32]*Objective {
	all := make(map[uint32]*Objective, len(objectives))
	for _, o := range objectives {
		all[o.Ref] = o
	}
	return all
}

// objectives returns the objectives of lambdas that exist, by the lambda's reference.
func (k *Keeper) objectives() map[uint32]*Objective {
	all := maps.Clone(k.copy.Value())
	maps.DeleteFunc(all, func(ref uint32, _ *Objective) bool { return !k.Exists(ref) })
	return all
}

// Flush stores the counts of this process that have changed, and forgets hours that are over and stored.
func (k *Keeper) Flush(ctx context.Context) error {
	k.mu.Lock()
	var rows []store.Control
	var hours []int64
	for hour, row := range k.hours {
		if !row.changed {
			continue
		}
		row.changed = false
		value, _ := json.Marshal(row.counts) // of numbers
		rows = append(rows, store.Control{Kind: dayOf(hour), Name: fmt.Sprintf("%d/%s", hour, k.process), Version: row.version + 1, Value: value})
		hours = append(hours, hour)
	}
	k.mu.Unlock()
	var errs []error
	for i, row := range rows {
		version, err := k.put(ctx, row)
		k.mu.Lock()
		if kept := k.hours[hours[i]]; err == nil {
			kept.version = version
		} else {
			kept.changed = true
			errs = append(errs, err)
		}
		k.mu.Unlock()
	}
	return errors.Join(errs...)
}

// put stores a row of this process, which nobody else writes, and returns its version. After an unknown
// outcome it may be there.
func (k *Keeper) put(ctx context.Context, row store.Control) (version uint64, err error) {
	err = k.Rows.PutControl(ctx, row)
	if errors.Is(err, store.ErrConflict) {
		if now, readErr := k.Rows.Control(ctx, row.Kind, row.Name); readErr == nil {
			row.Version = now.Version + 1
			err = k.Rows.PutControl(ctx, row)
		}
	}
	return row.Version, err
}

// readDays reads the counts of the fleet: those of days that are over once, those of others each time.
func (k *Keeper) readDays(ctx context.Context) error {
	k.reading.Lock()
	defer k.reading.Unlock()
	longest := deadOver
	for _, o := range k.objectives() {
		longest = max(longest, o.Window)
	}
	now := k.Clock.Now()
	needed := map[string]bool{}
	for hour := hourOf(now.Add(-longest)); hour <= hourOf(now); hour++ {
		day := dayOf(hour)
		if needed[day] {
			continue
		}
		needed[day] = true
		if k.isSettled(day) {
			continue
		}
		counts, err := k.readDay(ctx, day)
		if err != nil {
			return err
		}
		k.known.Lock()
		k.days[day] = dayCounts{hours: counts, settled: day != dayOf(hourOf(now.Add(-settledAfter))) && day != dayOf(hourOf(now))}
		k.known.Unlock()
	}
	k.known.Lock()
	defer k.known.Unlock()
	for day := range k.days {
		if !needed[day] {
			delete(k.days, day)
		}
	}
	return nil
}

func (k *Keeper) isSettled(day string) bool {
	k.known.Lock()
	defer k.known.Unlock()
	return k.days[day].settled
}

func (k *Keeper) readDay(ctx context.Context, day string) (map[int64]map[uint32]Count, error) {
	rows, err := k.Rows.Controls(ctx, day)
	if err != nil {
		return nil, fmt.Errorf("read counts of starts: %w", err)
	}
	hours := map[int64]map[uint32]Count{}
	for i := range rows {
		var hour int64
		counts := map[uint32]Count{}
		if _, err := fmt.Sscanf(rows[i].Name, "%d/", &hour); err != nil || json.Unmarshal(rows[i].Value, &counts) != nil {
			k.Log.ErrorContext(ctx, "skipping counts of starts that cannot be read", slog.String("row", rows[i].Name))
			continue
		}
		if hours[hour] == nil {
			hours[hour] = map[uint32]Count{}
		}
		for ref, c := range counts {
			hours[hour][ref] = hours[hour][ref].plus(c)
		}
	}
	return hours, nil
}

// sweep deletes the rows of days that no window reaches, once a day.
func (k *Keeper) sweep(ctx context.Context) error {
	now := k.Clock.Now()
	today := dayOf(hourOf(now))
	if k.swept == today {
		return nil
	}
	k.mu.Lock()
	for hour, row := range k.hours {
		if !row.changed && dayOf(hour) != today && dayOf(hour) != dayOf(hourOf(now.Add(-24*time.Hour))) {
			delete(k.hours, hour)
		}
	}
	k.mu.Unlock()
	for days := range 7 { // a server that was away finds what others left
		old := now.Add(-WindowMax - time.Duration(days+2)*24*time.Hour)
		rows, err := k.Rows.Controls(ctx, dayOf(hourOf(old)))
		if err != nil {
			return fmt.Errorf("read old counts of starts: %w", err)
		}
		for _, row := range rows {
			if err := k.Rows.DeleteControl(ctx, row); err != nil && !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrNotFound) {
				return err
			}
		}
	}
	k.swept = today
	return nil
}

// Statuses tells how all objectives are met, as far as counts are stored; those of the last minute may be
// missing. They are in the order of their lambdas' names.
func (k *Keeper) Statuses() []Status {
	k.known.Lock()
	defer k.known.Unlock()
	var all []Status
	now := hourOf(k.Clock.Now())
	for ref, o := range k.objectives() {
		late := Count{Started: k.waits[ref]}
		s := Status{Objective: *o, Count: k.sum(ref, now, o.Window).plus(late), Waiting: late.Started}
		for _, over := range BurnSpans() {
			if over <= o.Window {
				s.Burns = append(s.Burns, Burn{over, k.sum(ref, now, over).plus(late)})
			}
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b Status) int { return strings.Compare(a.Lambda, b.Lambda) })
	return all
}

func (k *Keeper) sum(ref uint32, now int64, over time.Duration) (sum Count) {
	for hour := now - int64(over/time.Hour); hour <= now; hour++ {
		sum = sum.plus(k.days[dayOf(hour)].hours[hour][ref])
	}
	return sum
}

// Deaths are how many tasks of a lambda died, on all servers: since the beginning of the hour before this one,
// and since that of the first hour of the last day.
type Deaths struct{ Hour, Day int64 }

// Deaths returns the deaths of the last day by the reference of their lambda, those counted here a moment ago
// included.
func (k *Keeper) Deaths(ctx context.Context) (map[uint32]Deaths, error) {
	if err := errors.Join(k.Flush(ctx), k.readDays(ctx)); err != nil {
		return nil, err
	}
	k.known.Lock()
	defer k.known.Unlock()
	all := map[uint32]Deaths{}
	now := hourOf(k.Clock.Now())
	for hour := now - int64(deadOver/time.Hour); hour <= now; hour++ {
		for ref, c := range k.days[dayOf(hour)].hours[hour] {
			d := all[ref]
			if d.Day += c.Dead; hour >= now-1 {
				d.Hour += c.Dead
			}
			if d.Day > 0 {
				all[ref] = d
			}
		}
	}
	return all, nil
}
