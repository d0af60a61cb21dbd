package sim

import (
	"fmt"
	"slices"
	"time"
)

// Kind is one kind of fault.
type Kind string

// The faults. Those that strike calls have a share as their amount: of the calls, so many go wrong while the
// fault lasts.
const (
	CrashServer Kind = "crash-server" // killed at that moment, started again after the time
	CrashWorker Kind = "crash-worker"
	Restart     Kind = "restart"     // a server stops in order, and another takes its place: a rollout
	Join        Kind = "join"        // one more server, which leaves after the time
	Halt        Kind = "halt"        // SIGSTOP of a process
	Suspend     Kind = "suspend"     // of a process's machine: its monotonic clock stands still
	StepServer  Kind = "step-server" // of the wall clock, by the amount in seconds
	StepWorker  Kind = "step-worker"
	Slew        Kind = "slew" // of a process's clocks, by the amount
	Cut         Kind = "cut"  // the network between a worker and all servers

	Net            Kind = "net-slow" // calls between processes take longer, by the amount in seconds at most
	NetLostRequest Kind = "net-lost-request"
	NetLostAnswer  Kind = "net-lost-answer"
	NetReset       Kind = "net-reset" // in the middle of a stream

	Store            Kind = "store-slow"
	StoreLostRequest Kind = "store-lost-request" // an error, and nothing was done
	StoreLostAnswer  Kind = "store-lost-answer"  // an error, and it was done
	StorePartial     Kind = "store-partial"      // some of a call's chains of writes were not done, or done without an answer
	StoreThrottled   Kind = "store-throttled"
	StoreHang        Kind = "store-hang" // no answer until the caller gives up
	StoreReadFails   Kind = "store-read-fails"
	StoreAway        Kind = "store-away" // for everybody

	Queue          Kind = "queue-slow"
	QueueLostSend  Kind = "queue-lost-send"  // an error, and the message is not there
	QueueKeptSend  Kind = "queue-kept-send"  // an error, and it is
	QueueTwice     Kind = "queue-twice"      // delivered twice
	QueueNobody    Kind = "queue-nobody"     // handed out to nobody: there again after the visibility timeout
	QueueUndead    Kind = "queue-undead"     // there again though it was deleted
	QueueReadFails Kind = "queue-read-fails" // a receive
	QueueAway      Kind = "queue-away"       // for everybody
	QueuePurged    Kind = "queue-purged"     // all messages are gone
	GrowShards     Kind = "grow-shards"

	PowerCut    Kind = "power-cut"    // after so many file operations as the amount says
	DiskFilling Kind = "disk-filling" // there is little room

	DiskReadFails  Kind = "disk-read-fails" // EIO
	DiskWriteFails Kind = "disk-write-fails"
	DescriptorsOut Kind = "descriptors-run-out" // EMFILE
)

// spec is how faults of a kind are drawn: how often in a run, for how long, and with which amount, evenly
// between least and most.
type spec struct {
	kind        Kind
	count       int // at most
	short, long time.Duration
	least, most float64
	only        []form // in these; empty: in all
}

var specs = []spec{ //nolint:gochecknoglobals // a table
	{kind: CrashServer, count: 4, short: 10 * time.Millisecond, long: 30 * time.Second},
	{kind: CrashWorker, count: 4, short: 10 * time.Millisecond, long: 30 * time.Second},
	{kind: Restart, count: 3},
	{kind: Join, count: 2, short: 10 * time.Second, long: time.Minute, only: shared},
	{kind: Halt, count: 3, short: 100 * time.Millisecond, long: 40 * time.Second},
	{kind: Suspend, count: 2, short: 100 * time.Millisecond, long: 40 * time.Second},
	{kind: Cut, count: 3, short: 100 * time.Millisecond, long: 40 * time.Second},
	{kind: Slew, count: 2, short: 10 * time.Second, long: time.Minute, least: -5e-4, most: 5e-4},
	{kind: Net, count: 2, short: time.Second, long: time.Minute, least: 0.01, most: 2},
	{kind: NetLostRequest, count: 2, short: time.Second, long: time.Minute, least: 0.01, most: 0.3},
	{kind: NetLostAnswer, count: 2, short: time.Second, long: time.Minute, least: 0.01, most: 0.3},
	{kind: NetReset, count: 2, short: time.Second, long: time.Minute, least: 0.01, most: 0.2},
	{kind: Store, count: 2, short: time.Second, long: time.Minute, least: 0.01, most: 2, only: remote},
	{kind: StoreLostRequest, count: 2, short: time.Second, long: time.Minute, least: 0.01, most: 0.3, only: remote},
	{kind: StoreLostAnswer, count: 2, short: time.Second, long: time.Minute, least: 0.01, most: 0.3, only: remote},
	{kind: StorePartial, count: 2, short: time.Second, long: time.Minute, least: 0.01, most: 0.5, only: remote},
	{kind: StoreThrottled, count: 2, short: time.Second, long: time.Minute, least: 0.05, most: 1, only: remote},
	{kind: StoreHang, count: 1, short: time.Second, long: 30 * time.Second, least: 0.01, most: 0.1, only: remote},
	{kind: StoreReadFails, count: 2, short: time.Second, long: time.Minute, least: 0.01, most: 0.5, only: remote},
	{kind: StoreAway, count: 1, short: time.Second, long: 3 * time.Minute, only: remote},
	{kind: Queue, count: 2, short: time.Second, long: time.Minute, least: 0.01, most: 2, only: shared},
	{kind: QueueLostSend, count: 2, short: time.Second, long: time.Minute, least: 0.01, most: 0.5, only: shared},
	{kind: QueueKeptSend, count: 2, short: time.Second, long: time.Minute, least: 0.01, most: 0.5, only: shared},
	{kind: QueueTwice, count: 2, short: time.Second, long: time.Minute, least: 0.01, most: 0.5, only: shared},
	{kind: QueueNobody, count: 2, short: time.Second, long: time.Minute, least: 0.01, most: 0.5, only: shared},
	{kind: QueueUndead, count: 2, short: time.Second, long: time.Minute, least: 0.01, most: 0.5, only: shared},
	{kind: QueueReadFails, count: 2, short: time.Second, long: time.Minute, least: 0.05, most: 1, only: shared},
	{kind: QueueAway, count: 1, short: time.Second, long: 3 * time.Minute, only: shared},
	{kind: QueuePurged, count: 2, only: shared},
	{kind: GrowShards, count: 1},
	{kind: StepServer, count: 2}, // see stepOf
	{kind: StepWorker, count: 3},
	{kind: PowerCut, count: 4, least: 1, most: 400, only: local},
	{kind: DiskFilling, count: 2, short: time.Second, long: time.Minute, only: local},
	{kind: DiskReadFails, count: 1, short: time.Second, long: time.Minute, least: 0.001, most: 0.2, only: local},
	{kind: DiskWriteFails, count: 1, short: time.Second, long: time.Minute, least: 0.001, most: 0.05, only: local},
	{kind: DescriptorsOut, count: 1, short: time.Second, long: time.Minute, least: 0.01, most: 1, only: local},
}

// The forms in which a fault is possible.
var (
	shared = []form{fleet, cloud}        //nolint:gochecknoglobals // tables
	remote = []form{fleet, alone, cloud} //nolint:gochecknoglobals // tables
	local  = []form{embedded}            //nolint:gochecknoglobals // tables
)

// The steps of clocks. A task waits as long as its server's wall clock says, so a step back by a day would
// make a run of a day; in a fleet so would a step forward, since what is due by the server that was asked
// waits for the others.
var (
	fleetSteps  = []time.Duration{time.Second, time.Minute, time.Hour, -time.Second, -time.Minute, -time.Hour}
	serverSteps = append(slices.Clip(fleetSteps), 24*time.Hour)
	workerSteps = append(slices.Clip(serverSteps), -24*time.Hour)
)

// stepOf is by how much a fault sets a clock.
func (f Fault) stepOf() time.Duration {
	if f.Kind == StepServer {
		return serverSteps[f.Target%len(serverSteps)]
	}
	return workerSteps[f.Target%len(workerSteps)]
}

// Kinds are all kinds of faults.
func Kinds() []Kind {
	kinds := make([]Kind, len(specs))
	for i := range specs {
		kinds[i] = specs[i].kind
	}
	return kinds
}

// Fault is one fault of a plan.
type Fault struct {
	Kind   Kind
	At     time.Duration // since the start of the run
	For    time.Duration
	Target int
	Amount float64
}

func (f Fault) String() string {
	text := fmt.Sprintf("%s at %v", f.Kind, f.At)
	if f.For > 0 {
		text += fmt.Sprintf(" for %v", f.For)
	}
	if f.Amount != 0 {
		text += fmt.Sprintf(" of %.4g", f.Amount)
	}
	return fmt.Sprintf("%s (target %d)", text, f.Target)
}
