package sim

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// form is what a fleet stands on.
type form uint8

const (
	_        form = iota
	fleet         // servers that share a store in memory, and queues that outlive them
	alone         // one server over such a store, which takes its queues with it
	cloud         // servers over the drivers of DynamoDB and SQS, and both services in memory
	embedded      // one server with Pebble on a disk, which takes its queues with it
)

func (f form) String() string { return [...]string{"", "fleet", "alone", "cloud", "embedded"}[f] }

// shared reports whether several servers share the store.
func (f form) shared() bool { return f == fleet || f == cloud }

// Plan is all that a seed decides beforehand.
type Plan struct {
	Form        form
	Servers     int
	Workers     int
	Slots       int
	Lease       time.Duration // of workers
	Shards      int
	NoMatch     bool
	Apart       time.Duration // clocks are at most so far from true time
	Load        []Order
	Parcels     []Parcel
	Faults      []Fault
	Gates       []Gate `json:",omitempty"`
	Concurrency Concurrency
	Brakes      Brakes
	Ticks       *Ticks        `json:",omitempty"`
	Graphs      *Graphs       `json:",omitempty"`
	Calm        bool          // without faults, and judged strictly
	Heal        time.Duration // when the last fault is over
}

// Order is one thing that a client does.
type Order struct {
	At       time.Duration
	Client   int
	Do       action
	Of       int // cancel, get and again: of the task of this order
	Task     Work
	In       time.Duration // due
	Key      string
	Class    string  // of priority; empty: the lambda's default
	LimitKey string  `json:",omitempty"`
	Change   *Change `json:",omitempty"` // alter
}

type action uint8

const (
	schedule action = iota
	again           // schedules the same once more, as a client does that was not answered
	cancel
	get
	alter   // as Change says
	nothing // left out
)

// Work is what a task does, as its payload says.
type Work struct {
	Nonce   string        `json:"n"`
	Takes   time.Duration `json:"t"`
	Fails   int           `json:"f,omitempty"` // so many times
	Snoozes int           `json:"s,omitempty"`
	Fatal   bool          `json:"x,omitempty"`
	Poison  bool          `json:"p,omitempty"` // kills its process
	Deaf    bool          `json:"d,omitempty"` // does not look at its context
	Fill    int           `json:"-"`           // by so many bytes its payload is longer
}

// attemptsMax is the lambda's.
const attemptsMax = 3

// want is the state in which the task has to end.
func (w *Work) want() string {
	switch {
	case w.Poison, !w.Fatal && w.Fails >= attemptsMax:
		return "dead"
	case w.Fatal:
		return "fatal_failure"
	}
	return "success"
}

// NewPlan draws the plan of a seed. The faults come swarm style: each kind is on or off for the whole run, so
// that some runs have few kinds and meet what others hide.
func NewPlan(seed uint64) Plan {
	r := rand.New(rand.NewPCG(seed, 1))
	p := Plan{
		Form: []form{fleet, fleet, alone, cloud, embedded, embedded}[r.IntN(6)], Servers: 1 + r.IntN(3), Workers: 1 + r.IntN(3), Slots: 1 + r.IntN(8), Shards: 1 + r.IntN(3), NoMatch: r.IntN(3) == 0,
		Lease: []time.Duration{3 * time.Second, 5 * time.Second, 15 * time.Second}[r.IntN(3)],
		Apart: time.Duration(r.IntN(40)) * time.Millisecond,
	}
	if !p.Form.shared() {
		p.Servers = 1
	}
	span := time.Duration(20+r.IntN(60)) * time.Second
	p.Load = append(orders(r, span), p.changes(seed, span)...)
	p.Parcels = p.parcels(seed, span)
	p.Gates = p.gatesOf(seed, span)
	p.Concurrency = concurrencyOf(seed)
	p.Ticks = ticksOf(seed, span)
	p.Graphs = graphsOf(seed, span)
	p.brakes(seed, span)
	p.Faults = append(p.faults(r, span), p.outage(r, span)...)
	slices.SortStableFunc(p.Faults, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
	p.calm(seed)
	for _, f := range p.Faults {
		p.Heal = max(p.Heal, f.At+f.For)
	}
	p.Heal = max(p.Heal, span)
	return p
}

func (p *Plan) faults(r *rand.Rand, span time.Duration) []Fault {
	var all []Fault
	few := 1 + r.IntN(4) // of so many kinds one is on
	for _, s := range specs {
		if r.IntN(few) != 0 || len(s.only) > 0 && !slices.Contains(s.only, p.Form) {
			continue
		}
		if s.kind == StepServer && p.Form.shared() && r.IntN(20) != 0 {
			continue // servers whose clocks are far apart promise less, so few plans have that
		}
		for range 1 + r.IntN(s.count) {
			f := Fault{Kind: s.kind, At: time.Duration(r.Int64N(int64(span))), Target: r.IntN(64), Amount: s.least + r.Float64()*(s.most-s.least)}
			if s.kind == StepServer && p.Form.shared() {
				f.Target %= len(fleetSteps)
			}
			if s.long > 0 {
				f.For = s.short + time.Duration(r.Int64N(int64(s.long-s.short)))
			}
			all = append(all, f)
		}
	}
	return all
}

// outage is one of hours, in one plan in hundreds: it takes long to simulate.
func (p *Plan) outage(r *rand.Rand, span time.Duration) []Fault {
	if r.IntN(300) != 0 || !slices.Contains(remote, p.Form) {
		return nil
	}
	f := Fault{Kind: StoreAway, At: time.Duration(r.Int64N(int64(span))), For: time.Hour + time.Duration(r.Int64N(int64(2*time.Hour)))}
	if p.Form.shared() && r.IntN(2) == 0 {
		f.Kind = QueueAway
	}
	return []Fault{f}
}

func orders(r *rand.Rand, span time.Duration) []Order {
	n := 10 + r.IntN(50)
	var all []Order
	for i := range n {
		o := Order{At: time.Duration(r.Int64N(int64(span))), Client: r.IntN(2), Task: work(r, i)}
		switch r.IntN(4) {
		case 0: // due at once
		case 1:
			o.In = time.Duration(r.IntN(3000)) * time.Millisecond
		default:
			o.In = time.Duration(r.Int64N(int64(span)))
		}
		if r.IntN(3) == 0 {
			o.Key = fmt.Sprintf("key-%d", i)
		}
		if r.IntN(2) == 0 {
			o.Class = []string{"high", "low"}[r.IntN(2)]
		}
		all = append(all, o)
	}
	for i := range n {
		later := Order{At: all[i].At + time.Duration(r.IntN(20_000))*time.Millisecond, Client: r.IntN(2), Of: i, Do: get}
		switch {
		case r.IntN(6) == 0:
			later.Do = cancel
		case all[i].Key != "" && r.IntN(2) == 0:
			later.Do = again
			if all[i].Task.want() != "success" {
				later.Do = get // another end frees the key, and the same call makes another task
			}
		case r.IntN(3) > 0:
			continue
		}
		all = append(all, later)
	}
	return all
}

func work(r *rand.Rand, i int) Work {
	w := Work{Nonce: fmt.Sprintf("n%03d", i), Takes: time.Duration(r.IntN(500)) * time.Millisecond}
	switch r.IntN(12) {
	case 0:
		w.Takes = time.Duration(r.IntN(40_000)) * time.Millisecond
	case 1:
		w.Fails = 1 + r.IntN(attemptsMax)
	case 2:
		w.Snoozes = 1
	case 3:
		w.Fatal = true
	case 4:
		w.Deaf, w.Takes = true, time.Duration(r.IntN(10_000))*time.Millisecond
	case 5:
		w.Poison = r.IntN(5) == 0
	}
	return w
}

// clockOf draws how wrong the clock of a process is from its start on.
func (p *Plan) clockOf(pid int) (offset time.Duration, drift float64) {
	r := rand.New(rand.NewPCG(uint64(pid), uint64(p.Apart)))
	return time.Duration((r.Float64()*2 - 1) * float64(p.Apart)), (r.Float64()*2 - 1) * 1e-4
}

// slewed is by how much clocks go wrong without a step at most.
func (p *Plan) slewed() (sum time.Duration) {
	for _, f := range p.Faults {
		if f.Kind == Slew {
			sum += time.Duration(math.Abs(f.Amount) * float64(f.For))
		}
	}
	return sum
}

// stepsBack is by how much clocks are set back, and stepsForward how much forward.
func (p *Plan) stepsBack() (sum time.Duration) {
	return p.steps(func(d time.Duration) time.Duration { return max(0, -d) })
}

func (p *Plan) stepsForward() (sum time.Duration) {
	return p.steps(func(d time.Duration) time.Duration { return max(0, d) })
}

func (p *Plan) steps(part func(time.Duration) time.Duration) (sum time.Duration) {
	for _, f := range p.Faults {
		if f.Kind == StepServer {
			sum += part(f.stepOf())
		}
	}
	return sum
}

// farApart says that servers that share a store have clocks that disagree by more than they are promised to.
// Then a task may be taken for lost while it runs; nothing is lost, and a newer attempt still refuses what an
// older one reports.
func (p *Plan) farApart() bool {
	return p.Form.shared() && p.stepsBack()+p.stepsForward() > 0
}

// Only leaves out all faults and orders but those with these numbers, as a list with commas; "all" leaves
// all.
func (p *Plan) Only(faults, orders string) error {
	kept, err := only(faults, p.Faults)
	if err != nil {
		return fmt.Errorf("faults: %w", err)
	}
	p.Faults = kept
	if orders == "all" {
		return nil
	}
	numbers, err := numbersOf(orders, len(p.Load))
	if err != nil {
		return fmt.Errorf("orders: %w", err)
	}
	for i := range p.Load {
		if !slices.Contains(numbers, i) {
			p.Load[i].Do = nothing
		}
	}
	return nil
}

func only[T any](list string, all []T) ([]T, error) {
	if list == "all" {
		return all, nil
	}
	numbers, err := numbersOf(list, len(all))
	var kept []T
	for _, n := range numbers {
		kept = append(kept, all[n])
	}
	return kept, err
}

func numbersOf(list string, below int) ([]int, error) {
	var numbers []int
	for _, text := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' }) {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n >= below {
			return nil, fmt.Errorf("%q: want numbers from 0 to %d, with commas between them, or all", text, below-1)
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}
