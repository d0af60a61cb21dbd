package protocol

import "slices"

// Scenarios are small, each about one thing: together they have every process, fault and race of
// docs/internals/protocol.md.
func Scenarios(long bool) []Scenario {
	all := slices.Concat(taskScenarios(), keyScenarios(), processScenarios(), changeScenarios(), followScenarios())
	if long {
		for i := range all {
			all[i].Left.crashes++
		}
	}
	return all
}

// taskScenarios are about the path of one task.
func taskScenarios() []Scenario {
	return []Scenario{
		{
			Name:  "dispatch: two owners, two workers, a lease to lose, a crash, a message lost or doubled",
			Calls: []Call{{Kind: Far}}, Parts: 1, Owners: 2, Workers: 2, Places: 1,
			Left: budget{crashes: 1, losses: 1, leases: 1, resends: 1},
		},
		{
			Name:  "cancel: before and after dispatch",
			Calls: []Call{{Kind: Far}}, Parts: 1, Owners: 1, Workers: 1, Places: 2, Until: 1, Match: true,
			Left: budget{crashes: 1, cancels: 1, moves: 1},
		},
		{
			Name:  "expiry: instead of a dispatch or of a second message, beside another owner and a worker",
			Calls: []Call{{Kind: Far}}, Parts: 1, Owners: 2, Workers: 1, Places: 1, Expiring: true, Expires: true,
			Left: budget{crashes: 1, losses: 1, resends: 1},
		},
		{
			Name:  "expiry: a cancel and a repeated request",
			Calls: []Call{{Kind: Far}, {Kind: Far}}, Parts: 1, Owners: 1, Workers: 1, Places: 1, Expiring: true, Match: true,
			Left: budget{crashes: 1, cancels: 1},
		},
		{
			Name:  "expiry: a key",
			Calls: []Call{{Kind: Keyed}, {Kind: Keyed, AfterExpiry: 1}}, Parts: 1, Owners: 1, Workers: 1, Places: 1, Expiring: true, Expires: true,
			Left: budget{crashes: 1},
		},
		{
			Name:  "buffer: a late duplicate, a cancel, a move away",
			Calls: []Call{{Kind: Far, AfterCall: 1}}, Buffered: true, Copies: 2, Parts: 1, Owners: 1, Workers: 1, Places: 2, Until: 1,
			Left: budget{crashes: 1, cancels: 1, moves: 1},
		},
		{
			Name:  "moves: there and back again, an unknown put, deletes that come late",
			Calls: []Call{{Kind: Far}}, Parts: 1, Owners: 2, Workers: 1, Places: 2, Until: 1,
			Left: budget{crashes: 1, moves: 2, unknowns: 1},
		},
		{
			Name:  "moves: a repeated request meanwhile",
			Calls: []Call{{Kind: Far}, {Kind: Far}}, Parts: 1, Owners: 1, Workers: 1, Places: 2, Until: 1,
			Left: budget{crashes: 1, moves: 2},
		},
		{
			Name:  "repeated: the same request for two moments, its row expires",
			Calls: []Call{{Kind: Far}, {Kind: Far, At: 1}}, Parts: 1, Owners: 2, Workers: 2, Places: 2, Until: 1, Expires: true,
			Left: budget{crashes: 1, leases: 1},
		},
		{
			Name:  "near: enqueued at once, or claimed",
			Calls: []Call{{Kind: Near}, {Kind: Matched}}, Parts: 1, Owners: 2, Workers: 2, Places: 1,
			Left: budget{crashes: 1, leases: 1, refusals: 1, resends: 1},
		},
	}
}

// keyScenarios are about calls with one key.
func keyScenarios() []Scenario {
	return []Scenario{
		{
			Name:  "key: three calls, one of them for another task",
			Calls: []Call{{Kind: Keyed}, {Kind: Keyed, At: 1, Life: 1}, {Kind: Keyed, AfterCall: 1}}, Parts: 1, Owners: 1, Workers: 1, Places: 2, Until: 1,
			Left: budget{crashes: 1, refusals: 1},
		},
		{
			Name:  "key: taken again for the same moment",
			Calls: []Call{{Kind: Keyed}, {Kind: Keyed, Life: 1, AfterEnd: 1}, {Kind: Keyed, Life: 1, AfterExpiry: 1}}, Parts: 1, Owners: 1, Workers: 1, Places: 1,
			Expires: true, Left: budget{crashes: 1, cancels: 1},
		},
		{
			Name:  "key: moved, cancelled and taken again for the moment of the move",
			Calls: []Call{{Kind: Keyed}, {Kind: Keyed, Life: 1, At: 1, AfterExpiry: 1}}, Parts: 1, Owners: 1, Workers: 1, Places: 2, Until: 1,
			Expires: true, Left: budget{crashes: 1, cancels: 1, moves: 1},
		},
		{
			Name:  "key: a call that was refused and left its row",
			Calls: []Call{{Kind: Keyed}, {Kind: Keyed, Life: 1, At: 1}, {Kind: Keyed, Life: 1, AfterCall: 2}}, Parts: 1, Owners: 1, Workers: 1, Places: 2, Until: 1,
			Expires: true, Left: budget{crashes: 1},
		},
	}
}

// processScenarios are about the processes that work on tasks: their gaps, take-overs, gates and shards.
func processScenarios() []Scenario {
	return []Scenario{
		{
			Name:  "gap: all processes are gone until ended rows have expired, a cancel",
			Calls: []Call{{Kind: Far}}, Parts: 1, Owners: 2, Workers: 1, Places: 1, Expires: true,
			Left: budget{crashes: 1, cancels: 1, gaps: 1},
		},
		{
			Name:  "gap: the same, a task that was enqueued at once, and moves",
			Calls: []Call{{Kind: Near}, {Kind: Near}}, Parts: 1, Owners: 1, Workers: 1, Places: 2, Until: 1, Expires: true,
			Left: budget{crashes: 1, moves: 1, gaps: 1},
		},
		{
			Name:  "embedded: sweep, and a repeated request",
			Calls: []Call{{Kind: Far}, {Kind: Far}}, Parts: 1, Owners: 1, Workers: 1, Places: 2, Until: 1,
			Embedded: true, Expires: true, Sweeps: true, Left: budget{crashes: 1, cancels: 1, moves: 1},
		},
		{
			Name:  "retry: within moments, hsc where no owner is",
			Calls: []Call{{Kind: Far}}, Parts: 1, Owners: 1, Workers: 1, Places: 2, Until: 1, Outside: true, Prompt: true,
			Left: budget{retries: 1},
		},
		{
			Name:  "retry: within moments, hsc with an owner, who crashes",
			Calls: []Call{{Kind: Far}}, Parts: 1, Owners: 1, Workers: 1, Places: 1, Prompt: true,
			Left: budget{retries: 1, crashes: 1},
		},
		{
			Name:  "take-over: an owner crashes between the row and the message",
			Calls: []Call{{Kind: Near}}, Parts: 1, Owners: 2, Workers: 1, Places: 1, Prompt: true,
			Left: budget{crashes: 1},
		},
		{
			Name:  "gate: a task is put back at its claim, beside another owner and worker",
			Calls: []Call{{Kind: Far}}, Parts: 1, Owners: 2, Workers: 2, Places: 1,
			Left: budget{crashes: 1, losses: 1, resends: 1, holds: 2},
		},
		{
			Name:  "gate: the same, of a task that moves and is cancelled",
			Calls: []Call{{Kind: Near}}, Parts: 1, Owners: 1, Workers: 1, Places: 2, Until: 1, Expires: true,
			Left: budget{crashes: 1, cancels: 1, moves: 1, holds: 1},
		},
		{
			Name:  "repeated call: at another moment, beside a cancel, a move and another owner",
			Calls: []Call{{Kind: Far}, {Kind: Repeated, At: 1}}, Parts: 1, Owners: 2, Workers: 1, Places: 2, Until: 1, Expires: true,
			Left: budget{crashes: 1, cancels: 1, moves: 1},
		},
		{
			Name:  "repeated call: neither is known to be the first, and rows expire",
			Calls: []Call{{Kind: Repeated, At: 1}, {Kind: Repeated}}, Parts: 1, Owners: 1, Workers: 1, Places: 2, Until: 1, Expires: true,
			Left: budget{crashes: 1, unknowns: 1, cancels: 1},
		},
		{
			Name:  "shards: a deliver lambda, and two counts",
			Calls: []Call{{Kind: Far, At: 1}, {Kind: Far, At: 1, Stale: 1}}, Parts: 2, Owners: 2, Places: 2, Until: 1, Deliver: true,
			Left: budget{crashes: 1},
		},
		{
			Name:  "shards: a call, its repetition and its cancel under two counts",
			Calls: []Call{{Kind: Far}, {Kind: Far, Stale: 1}}, Parts: 2, Owners: 2, Workers: 1, Places: 1,
			Left: budget{crashes: 1, cancels: 1},
		},
		{
			Name:  "shards: a key under two counts",
			Calls: []Call{{Kind: Keyed}, {Kind: Keyed, Stale: 1}}, Parts: 2, Owners: 2, Workers: 1, Places: 1, Expires: true,
			Left: budget{crashes: 1},
		},
	}
}

// changeScenarios are those of what users change: keys that are used again, and tasks that are moved or
// redriven.
func changeScenarios() []Scenario {
	return []Scenario{
		{
			Name:  "key: used again as soon as it is free, by two calls, at another moment",
			Calls: []Call{{Kind: Keyed}, {Kind: Keyed, Life: 1, At: 1, AfterEnd: 1, Next: true}, {Kind: Keyed, Life: 1, AfterEnd: 1, Next: true}},
			Parts: 1, Owners: 1, Workers: 1, Places: 2, Until: 1, Left: budget{crashes: 1, cancels: 1},
		},
		{
			Name:  "key: used again for the same moment, moves before",
			Calls: []Call{{Kind: Keyed}, {Kind: Keyed, Life: 1, AfterEnd: 1, Next: true}},
			Parts: 1, Owners: 1, Workers: 1, Places: 2, Until: 1, Expires: true, Left: budget{crashes: 1, cancels: 1, moves: 1},
		},
		{
			Name:  "reschedule: later, of a task that waits alone",
			Calls: []Call{{Kind: Far}}, Parts: 1, Owners: 2, Workers: 1, Places: 2, Until: 1,
			Change: Reschedules, ChangeTo: 1, Left: budget{changes: 1, crashes: 1},
		},
		{
			Name:  "reschedule: to now, and a cancel and a repeated request meanwhile",
			Calls: []Call{{Kind: Far, At: 1}, {Kind: Far, At: 1}}, Parts: 1, Owners: 1, Workers: 1, Places: 2, Until: 1, Expires: true,
			Change: Reschedules, ChangeTo: 0, Left: budget{changes: 1, cancels: 1},
		},
		{
			Name:  "reschedule: of a task that is enqueued at once, and moves by itself",
			Calls: []Call{{Kind: Near}}, Parts: 1, Owners: 1, Workers: 1, Places: 2, Until: 1,
			Change: Reschedules, ChangeTo: 1, Left: budget{crashes: 1, changes: 1, moves: 1},
		},
		{
			Name:  "reschedule: embedded, twice",
			Calls: []Call{{Kind: Far}}, Parts: 1, Owners: 1, Workers: 1, Places: 2, Until: 1, Embedded: true, Expires: true, Sweeps: true,
			Change: Reschedules, ChangeTo: 1, Left: budget{crashes: 1, changes: 2, cancels: 1},
		},
		{
			Name:  "priority: to another partition, there and back",
			Calls: []Call{{Kind: Far}}, Parts: 2, Owners: 1, Workers: 1, Places: 1,
			Change: Reschedules, ChangePart: 1, Left: budget{changes: 2},
		},
		{
			Name:  "priority: the same, of a key",
			Calls: []Call{{Kind: Keyed}}, Parts: 2, Owners: 1, Workers: 1, Places: 1,
			Change: Reschedules, ChangePart: 1, Left: budget{changes: 1, crashes: 1},
		},
		{
			Name:  "redrive: at the moment of the first life, deletes that come late",
			Calls: []Call{{Kind: Far}}, Parts: 1, Owners: 1, Workers: 1, Places: 1, Expires: true,
			Change: Redrives, Left: budget{crashes: 1, changes: 1, cancels: 1},
		},
		{
			Name:  "redrive: of a key that is used again at the same time",
			Calls: []Call{{Kind: Keyed}, {Kind: Keyed, Life: 2, AfterEnd: 1, Next: true}}, Parts: 1, Owners: 1, Workers: 1, Places: 1, Expires: true,
			Change: Redrives, Left: budget{changes: 1, cancels: 1},
		},
		{
			Name:  "redrive: embedded, with sweeps",
			Calls: []Call{{Kind: Near}}, Parts: 1, Owners: 1, Workers: 1, Places: 2, Until: 1, Embedded: true, Expires: true, Sweeps: true,
			Change: Redrives, ChangeTo: 1, Left: budget{crashes: 1, changes: 1, cancels: 1, moves: 1},
		},
	}
}
