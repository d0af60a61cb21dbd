// Package kinesin is the map of this repository; it has no code.
//
// Kinesin is a distributed, durable, delayed-task scheduler. A folder is a role
// or a seam of its architecture, and the comment of each package says what it
// owns, what it calls and what it never does. docs/internals/architecture.md draws how they
// meet. arch_test.go holds the table of who may import whom.
//
// The domain, which everything else speaks:
//
//	task                what a task and a lambda are, and the state machine, as pure functions
//
// The seams, each a concrete type over a small driver:
//
//	store               durable tasks; drivers store/pebble, store/dynamo and store/mem, suite store/storetest
//	queue               enqueued tasks on their way to workers; drivers queue/sqs and queue/mem,
//	                    suite queue/queuetest
//	partition           who owns which slice of the key space
//	internal/catalog    the lambdas that a process knows; internal/catalog/lambdas creates,
//	                    changes and deletes them
//	internal/control    the control rows of a kind, and what a process knows of them
//	internal/lease      the worker leases that a process knows
//
// The roles, which never import each other, but for the start of tasks in dispatcher:
//
//	inbound             schedules tasks, answers what became of them, lists and cancels them
//	inbound/ingest      takes the tasks of the inbound buffer to the store; both take
//	                    tasks in by inbound/intake
//	scheduler           looks ahead in the partitions it owns and fires what is due
//	dispatcher          decides how a task starts, and puts due tasks on their lambda's queue
//	hsc                 heartbeat and status controller: claims, leases, outcomes
//	internal/controller the worker's side of the hsc
//
// Features, which import no other feature, and which no role imports; internal/feature has all of them:
//
//	internal/feature/chain stands before the store, and creates what follows a task with its end; shows,
//	                    cancels, pauses and redrives chains
//	internal/feature/gate  sets, ends and shows gates; which of them holds a task is internal/hold's
//	internal/feature/group makes, fills, seals and shows groups, after which tasks follow
//	internal/feature/cron  sets, pauses, runs and shows crons, and tells what became of their nominal times
//
// These packages tie them together:
//
//	api                 the wire contract, version 1
//	sdk                 Go client and worker; sdk/sdktest is a whole Kinesin in memory, in virtual time,
//	                    sdk/sqsinbound schedules over SQS alone
//	target/httptarget   the handler that calls a URL for each task
//	clients             the clients in Python and TypeScript, over plain HTTP
//	web                 the console: pages for operators
//	server              composes the roles into one process, and chooses the drivers
//	cmd/kinesin         the one binary; cmd/kinesin-bench measures it
//	deploy              the Helm chart, whose image the Dockerfile makes
//	terraform           modules for an installation and for a lambda on AWS
//	docs                the documentation, and tests that compare it with the code
//
// Only sdk, sdk/sdktest, sdk/sqsinbound and the wire contract in api are meant for other modules; the other
// packages may change in any release.
package kinesin
