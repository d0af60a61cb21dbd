package kinesin

import (
	"slices"
	"testing"
)

const module = "github.com/kinesin-io/kinesin"

// row is what one package of this module may import of this module. A name is
// an import path below the module ("." for the root); "x/*" stands for every package
// below x. A package that no row names is a violation.
type row struct {
	name  string
	may   []string // imports of the package itself
	tests []string // imports that only its tests may have, besides testKit
	never []string // not even through other packages; names as in may, or paths of other modules
	// stdOnly packages import, of other modules, nothing.
	stdOnly bool
	// generated packages have their comment in the source they are generated from.
	generated bool
}

// The direction: cmd → server → roles → seams → task. Drivers hang off seams, nothing
// points up, and roles meet only in internal/node, but for dispatcher, whose Starter decides for all who start
// tasks.
var (
	seams   = []string{"task", "partition", "store", "queue", "internal/catalog", "internal/lease", "internal/backoff", "internal/clock"}
	drivers = []string{"store/pebble", "store/mem", "queue/mem"}
	wire    = []string{"api", "api/*"}

	// tools know nothing of roles.
	tools = []string{
		"internal/alloctest", "internal/awsclient", "internal/awserr", "internal/awsfake", "internal/awsfake/*", "internal/awslocal", "internal/backoff", "internal/clock", "internal/clock/clocktest",
		"internal/dial", "internal/gather", "internal/inproc", "internal/kubelocal", "internal/livefile", "internal/loglimit", "internal/loopback", "internal/minheap",
		"internal/process", "internal/refusal", "internal/room", "internal/runtest", "internal/sqsclient", "internal/tlstest", "internal/token", "internal/wirecopy/wirecopytest",
	}

	// testKit is what the tests of every package may import.
	testKit = slices.Concat(drivers, []string{"task", "store", "queue", "store/storetest", "queue/queuetest", "partition/partitiontest"}, tools)

	// noServer is what never gets into the binary of who schedules, and serverSide what never gets into that
	// of a worker.
	noServer = []string{
		"inbound", "inbound/*", "scheduler", "dispatcher", "hsc", "internal/catalog", "internal/feature/*", "internal/lease", "partition", "server", "store", "store/*", "queue", "queue/*",
		"github.com/cockroachdb", "k8s.io",
	}
	serverSide = append(slices.Clip(noServer), "github.com/aws")

	// testOnly is what never gets into the binary that users run.
	testOnly = []string{"internal/alloctest", "internal/runtest", "internal/tlstest", "internal/wirecopy/wirecopytest", "internal/clock/clocktest", "internal/loopback", "internal/awslocal", "internal/kubelocal", "internal/awsfake", "internal/awsfake/*"}

	anything = []string{"*"}
)

var table = []row{
	{name: "."},
	{name: "task", stdOnly: true},
	{name: "internal/minheap", stdOnly: true},
	{name: "internal/clock", may: []string{"task", "internal/minheap"}},
	{name: "internal/backoff", may: []string{"task", "internal/clock"}},
	{name: "internal/clock/clocktest", may: []string{"task", "internal/clock"}},
	{name: "internal/inproc", stdOnly: true},
	{name: "internal/livefile", may: []string{"internal/backoff", "internal/clock"}},
	{name: "internal/dial", may: []string{"api", "api/kinesinv1", "internal/backoff", "internal/clock", "internal/livefile", "internal/token"}, never: serverSide},
	{name: "internal/token", may: []string{"internal/backoff", "internal/clock", "internal/livefile"}},
	{name: "internal/sqsclient", may: []string{"task", "internal/awserr", "internal/backoff", "internal/clock"}, tests: []string{"internal/awsfake", "internal/awsfake/fakesqs"}},
	{name: "internal/refusal", may: slices.Concat(wire, []string{"internal/catalog", "queue", "store"})},
	{name: "internal/gather", may: []string{"task", "internal/backoff", "internal/clock"}},
	{name: "internal/alloctest", stdOnly: true},
	{name: "internal/room", stdOnly: true},
	{name: "internal/runtest", stdOnly: true},
	{name: "internal/tlstest", stdOnly: true},
	{name: "internal/process"},
	{name: "internal/feature/backup", may: []string{"store", "internal/blobplace", "internal/clock", "sdk/blobs"}},
	{name: "internal/zones", stdOnly: true},
	{name: "internal/feature/cron/cronspec", may: []string{"api", "api/kinesinv1", "internal/zones"}},
	{name: "internal/loglimit", stdOnly: true},
	{name: "internal/awsclient", may: []string{"task", "internal/awserr", "internal/backoff", "internal/clock"}},
	{name: "internal/awserr"},
	{name: "internal/loopback", stdOnly: true},
	{name: "internal/awslocal", may: []string{"internal/loopback"}},
	{name: "internal/kubelocal", may: []string{"internal/loopback"}},
	{name: "internal/awsfake", may: []string{"internal/awserr", "internal/backoff", "internal/clock"}},
	{name: "internal/awsfake/*", may: []string{"task", "internal/backoff", "internal/clock", "internal/awsfake"}},

	{name: "partition", may: []string{"task", "internal/backoff", "internal/clock"}},
	{name: "partition/partitiontest", may: []string{"task", "partition"}},
	{name: "partition/kube", may: []string{"task", "partition/fleet", "internal/backoff", "internal/clock"}, tests: []string{"partition", "store", "store/mem", "internal/inproc"}},
	{name: "partition/fleet", may: []string{"task", "store", "internal/backoff", "internal/clock"}, tests: []string{"partition"}},
	{name: "store", may: []string{"task", "partition", "internal/backoff", "internal/clock"}},
	{name: "queue", may: []string{"task", "partition", "internal/backoff", "internal/clock"}},
	{name: "internal/control", may: []string{"task", "store", "internal/backoff", "internal/clock", "internal/minheap"}},
	{name: "internal/hold", may: []string{"task", "internal/control"}},
	{name: "internal/feature/chain", may: slices.Concat(wire, []string{"task", "dispatcher", "partition", "store", "inbound", "inbound/intake", "internal/backoff", "internal/catalog", "internal/clock", "internal/refusal"}), tests: []string{"store/mem"}},
	{name: "internal/feature/gate/breaker", may: []string{"task", "store", "internal/backoff", "internal/clock", "internal/control", "internal/feature/gate", "internal/hold"}, tests: []string{"store/mem"}},
	{name: "internal/limit", may: []string{"task", "store", "internal/backoff", "internal/clock"}, tests: []string{"store/mem"}},
	{name: "internal/feature/quota", may: slices.Concat(wire, []string{"task", "store", "internal/access", "internal/backoff", "internal/catalog", "internal/clock", "internal/control", "internal/limit", "internal/refusal"}), tests: []string{"store/mem"}},
	{name: "internal/lease", may: []string{"task", "store", "internal/backoff", "internal/clock"}},
	{name: "internal/access", stdOnly: true},
	{name: "internal/access/sessions", may: []string{"task", "store", "internal/access", "internal/access/policy", "internal/clock", "internal/control", "internal/room"}},
	{name: "internal/access/signin", may: []string{"task", "internal/access/policy", "internal/access/sessions", "internal/clock", "internal/livefile"}},
	{name: "internal/access/policy", may: []string{"task", "internal/access", "internal/backoff", "internal/clock", "internal/livefile", "internal/token"}},
	{name: "internal/access/tokens", may: []string{"task", "store", "internal/access", "internal/backoff", "internal/clock", "internal/control"}},
	{name: "internal/feature/audit", may: []string{"task", "store", "internal/backoff", "internal/clock"}},
	{name: "internal/otlp", may: []string{"task", "internal/feature/audit", "internal/tracing"}, tests: []string{"api/kinesinv1"}},
	{name: "internal/logging", stdOnly: true},
	{name: "internal/feature/objective", may: slices.Concat(wire, []string{"task", "store", "internal/access", "internal/catalog", "internal/clock", "internal/control", "internal/refusal"}), tests: []string{"store/mem"}},
	{name: "internal/tracing", may: slices.Concat(wire, []string{"task"}), tests: []string{"internal/otlp"}},
	{name: "internal/guard", may: slices.Concat(wire, []string{"task", "store", "internal/access", "internal/access/tokens", "internal/feature/audit", "internal/backoff", "internal/clock", "internal/refusal"})},
	{name: "internal/overview", may: []string{"internal/clock"}},
	{
		name: "web", may: slices.Concat(wire, []string{"internal/access", "internal/access/sessions", "internal/clock", "internal/feature/cron/cronspec", "internal/overview", "internal/room", "internal/where", "internal/zones"}),
		tests: []string{"task"}, never: []string{"inbound", "scheduler", "hsc", "internal/node", "server", "github.com/cockroachdb", "github.com/aws"},
	},
	{name: "internal/rest", may: slices.Concat(wire, []string{"task"})},
	{name: "internal/catalog", may: []string{"task", "store", "api/kinesinv1", "internal/backoff", "internal/clock", "internal/control", "internal/room"}, tests: []string{"internal/catalog/lambdas"}},
	{name: "internal/feature/keyring", may: slices.Concat(wire, []string{"task", "store", "internal/clock", "internal/refusal"})},
	{name: "internal/catalog/lambdas", may: slices.Concat(seams, wire, []string{"internal/access", "internal/refusal"})},

	{name: "store/mem", may: []string{"task", "partition", "store", "internal/backoff", "internal/clock"}},
	{name: "store/pebble", may: []string{"task", "partition", "store", "internal/backoff", "internal/clock"}},
	{name: "store/dynamo", may: []string{"task", "partition", "store", "internal/backoff", "internal/clock"}},
	{name: "store/storetest", may: []string{"task", "partition", "store", "internal/backoff", "internal/clock"}},
	{name: "queue/mem", may: []string{"task", "partition", "queue", "internal/backoff", "internal/clock"}},
	{name: "queue/sqs", may: []string{"task", "queue", "internal/backoff", "internal/clock", "internal/gather", "internal/sqsclient"}, tests: []string{"store"}},
	{name: "queue/queuetest", may: []string{"task", "partition", "queue", "internal/backoff", "internal/clock"}},

	{name: "api", may: []string{"task", "api/*", "internal/access", "internal/room"}, never: serverSide},
	{name: "api/jsonform", may: []string{"task", "api", "api/kinesinv1", "api/kinesinv1/comments"}, never: serverSide},
	{name: "api/kinesinv1/comments", never: serverSide, generated: true},
	{name: "api/envelope", may: []string{"task", "api/kinesinv1"}, never: serverSide},
	{name: "api/kinesinv1", never: serverSide, generated: true},
	{name: "api/kinesinv1/kinesinv1connect", may: []string{"api/kinesinv1"}, never: serverSide, generated: true},

	{name: "inbound/intake", may: slices.Concat(seams, wire, []string{"dispatcher", "internal/refusal"})},
	{name: "inbound/ingest", may: slices.Concat(seams, wire, []string{"inbound/buffer", "inbound/intake", "internal/gather", "internal/refusal"})},
	{name: "internal/where", may: []string{"task", "api"}},
	{
		name: "inbound", may: slices.Concat(seams, wire, []string{"inbound/buffer", "inbound/intake", "internal/access", "internal/gather", "internal/hold", "internal/minheap", "internal/overview", "internal/refusal", "internal/room", "internal/where"}),
		tests: []string{"dispatcher", "inbound/ingest", "internal/catalog/lambdas", "internal/control", "inbound/buffer/buffertest"},
	},
	{name: "internal/feature/job", may: slices.Concat(wire, []string{"task", "store", "inbound", "internal/access", "internal/backoff", "internal/clock", "internal/control", "internal/refusal", "internal/room"}), tests: []string{"inbound/inboundtest", "internal/catalog"}},
	{name: "internal/feature/deadletter", may: slices.Concat(wire, []string{"task", "queue", "internal/catalog", "internal/clock", "internal/refusal"})},
	{name: "internal/feature/gate", may: slices.Concat(wire, []string{"task", "store", "queue", "inbound", "internal/access", "internal/catalog", "internal/clock", "internal/control", "internal/hold", "internal/refusal", "internal/room"}), tests: []string{"inbound/inboundtest"}},
	{name: "internal/feature/group", may: slices.Concat(wire, []string{"task", "store", "inbound", "inbound/intake", "internal/access", "internal/backoff", "internal/catalog", "internal/clock", "internal/control", "internal/refusal"}), tests: []string{"store/mem", "store/storetest"}},
	{name: "internal/feature/cron", may: slices.Concat(wire, []string{"task", "partition", "store", "inbound", "internal/access", "internal/catalog", "internal/clock", "internal/control", "internal/feature/cron/cronspec", "internal/refusal"}), tests: []string{"inbound/inboundtest"}},
	{name: "inbound/inboundtest", may: []string{"task", "store", "store/mem", "queue", "queue/mem", "dispatcher", "inbound", "inbound/intake", "internal/access", "internal/catalog", "internal/clock"}},
	{name: "inbound/buffer"},
	{name: "inbound/buffer/sqsbuffer", may: []string{"inbound/buffer", "internal/backoff", "internal/clock", "internal/sqsclient"}, tests: []string{"inbound/buffer/buffertest"}},
	{name: "inbound/buffer/buffertest", may: []string{"task", "inbound/buffer", "internal/backoff", "internal/clock"}},
	{name: "scheduler", may: slices.Concat(seams, []string{"internal/hold", "internal/limit", "internal/minheap"}), tests: []string{"internal/feature/gate", "internal/control", "internal/feature/quota", "store/dynamo"}},
	{name: "dispatcher", may: slices.Concat(seams, []string{"internal/gather"})},
	{name: "hsc", may: slices.Concat(seams, wire, []string{"dispatcher"}), tests: []string{"internal/feature/chain"}},
	{name: "internal/controller", may: slices.Concat(wire, []string{"task", "internal/backoff", "internal/clock", "internal/minheap"}), never: serverSide},

	{name: "internal/sdkconfig", may: slices.Concat(wire, []string{"internal/clock", "internal/controller"}), never: serverSide},
	{name: "sdk", may: slices.Concat(wire, []string{"task", "internal/controller", "internal/backoff", "internal/clock", "internal/dial", "internal/livefile", "internal/process", "internal/sdkconfig", "internal/wirecopy"}), tests: []string{"sdk/admin", "sdk/sdktest", "sdk/blobs", "server"}, never: serverSide},
	{name: "target", may: []string{"task", "sdk", "internal/backoff", "internal/clock", "internal/controller", "internal/inproc", "internal/sdkconfig"}, never: serverSide},
	{name: "target/httptarget", may: []string{"task", "sdk", "target", "internal/backoff", "internal/clock", "internal/controller"}, never: serverSide},
	{name: "sdk/admin", may: slices.Concat(wire, []string{"task", "sdk", "internal/clock", "internal/sdkconfig", "internal/wirecopy"}), tests: []string{"sdk/sdktest"}, never: serverSide},
	{name: "target/awslambda", may: []string{"task", "sdk", "target", "internal/controller"}, tests: []string{"api", "internal/sdkconfig"}, never: noServer},
	{name: "internal/wirecopy", stdOnly: true},
	{name: "internal/wirecopy/wirecopytest", stdOnly: true},
	{name: "sdk/blobs", stdOnly: true},
	{name: "sdk/blobs/s3blobs", may: []string{"sdk/blobs"}, never: noServer},
	{name: "internal/blobplace", may: []string{"sdk/blobs", "sdk/blobs/s3blobs"}, never: noServer},
	{name: "internal/feature/blob", may: []string{"task", "store", "internal/catalog", "internal/clock", "sdk/blobs"}, tests: []string{"store/mem"}},
	{
		name: "sdk/sqsinbound", may: slices.Concat(wire, []string{"task", "sdk", "internal/backoff", "internal/clock", "internal/gather", "internal/sdkconfig", "internal/sqsclient"}),
		tests: []string{"sdk/admin", "sdk/sdktest", "internal/node", "inbound/buffer/sqsbuffer", "queue/sqs", "test/harness"}, never: noServer,
	},
	{
		name: "sdk/sdktest", may: slices.Concat(seams, wire, []string{"store/mem", "queue/mem", "internal/controller", "internal/sdkconfig", "sdk", "sdk/admin", "internal/settle", "internal/node", "internal/inproc"}),
		never: []string{"store/pebble", "github.com/cockroachdb", "github.com/aws"}, // keeps users' tests quick to build
	},

	{name: "internal/settle", may: slices.Concat(seams, []string{"store/mem", "internal/feature/group"})},
	{name: "internal/testserver", may: slices.Concat(seams, wire, []string{"store/mem", "queue/mem", "internal/node", "internal/settle"}), tests: []string{"sdk", "sdk/admin"}},
	{
		name: "internal/node", may: slices.Concat(seams, wire, []string{"internal/access", "internal/access/sessions", "internal/access/tokens", "internal/feature/audit", "internal/guard", "internal/feature/blob", "internal/feature/gate/breaker", "internal/feature/chain", "internal/feature/cron", "internal/feature/gate", "internal/feature/group", "internal/feature/keyring", "internal/hold", "internal/limit", "internal/overview", "internal/feature/quota", "internal/feature/quota", "internal/rest", "internal/logging", "internal/feature/objective", "internal/tracing", "partition/fleet", "internal/catalog/lambdas", "inbound", "inbound/buffer", "internal/feature/group", "inbound/ingest", "inbound/intake", "internal/feature/job", "internal/feature/deadletter", "internal/feature/cron", "scheduler", "dispatcher", "hsc"}, tools),
		tests: []string{"sdk", "sdk/admin", "internal/control", "internal/otlp", "internal/sdkconfig", "store/dynamo", "queue/sqs", "inbound/buffer/buffertest"},
		never: []string{"store/pebble", "store/mem", "queue/mem", "github.com/cockroachdb", "github.com/aws"},
	},
	{
		name: "server", tests: []string{"sdk", "internal/controller"},
		may: slices.Concat(wire, drivers, []string{
			"task", "store", "store/dynamo", "queue", "queue/sqs", "internal/blobplace", "inbound/buffer", "inbound/buffer/sqsbuffer", "internal/catalog", "partition", "partition/fleet", "partition/kube", "internal/node",
			"internal/access", "internal/access/policy", "internal/access/sessions", "internal/access/signin", "internal/access/tokens", "internal/feature/audit", "internal/feature/backup", "internal/logging", "internal/controller", "internal/otlp", "sdk", "target", "target/awslambda", "target/httptarget", "web",
		}, tools),
	},
	{name: "docs", stdOnly: true},
	{name: "tools/rows", may: []string{"task"}},
	{name: "cmd/kinesin", may: []string{"cmd/kinesin/cli"}, never: append(slices.Clip(testOnly), "cmd/kinesin-bench/load")},
	{
		name: "cmd/kinesin/cli", may: slices.Concat(wire, []string{"task", "server", "sdk", "sdk/admin", "internal/access", "internal/access/policy", "internal/access/tokens", "internal/feature/audit", "internal/feature/backup", "internal/cost", "internal/feature/cron/cronspec", "internal/logging", "internal/testserver", "internal/where", "internal/zones", "internal/controller", "internal/sdkconfig", "internal/wirecopy", "cmd/kinesin/executor", "cmd/settings", "target", "target/httptarget"}, tools),
		tests: []string{"inbound/buffer", "inbound/buffer/buffertest", "internal/node", "test/harness"},
	},
	{name: "cmd/settings", may: slices.Concat(wire, []string{"sdk", "internal/blobplace"}, tools), never: noServer},
	{name: "cmd/kinesin-bench", may: slices.Concat(wire, []string{"sdk", "sdk/admin", "cmd/kinesin-bench/load", "cmd/kinesin/executor", "cmd/settings"}, tools), never: append(slices.Clip(testOnly), noServer...)},
	{name: "cmd/kinesin-bench/load", may: slices.Concat(wire, []string{"task", "sdk", "sdk/admin"}, tools), never: serverSide},
	{name: "cmd/kinesin/executor", may: []string{"sdk", "internal/backoff", "internal/clock"}, never: serverSide},
	{name: "internal/cost"},
	{name: "examples/*", may: []string{"sdk", "sdk/admin", "sdk/sdktest", "examples/*"}},

	// Tests over real processes. The checker judges what they saw and knows nothing else.
	{name: "test/checker", stdOnly: true},
	{name: "test/*", may: anything},
}

// planned rows may name a package that does not exist yet.
var planned []string

// reserved modules may be imported directly only by these packages, tests included.
var reserved = map[string][]string{
	"github.com/cockroachdb":         {"store/pebble", "scheduler", "test/sim"},
	"go.opentelemetry.io":            {"internal/otlp", "internal/tracing", "internal/node", "sdk", "sdk/sqsinbound", "server"},
	"github.com/netresearch/go-cron": {"internal/feature/cron/cronspec"},
	"github.com/teambition/rrule-go": {"internal/feature/cron/cronspec"},
	"github.com/spf13":               {"cmd/kinesin/cli", "cmd/kinesin-bench", "cmd/settings"},
	"maragu.dev/gomponents":          {"web"},
	"github.com/aws":                 {"store/dynamo", "queue/sqs", "inbound/buffer/sqsbuffer", "internal/sqsclient", "sdk/blobs/s3blobs", "internal/blobplace", "sdk/sqsinbound", "internal/awsclient", "internal/awserr", "internal/awslocal", "internal/awsfake", "internal/awsfake/fakedynamo", "internal/awsfake/fakesqs", "target/awslambda", "test/aws", "test/awsfaults", "test/canary", "test/cost", "test/sim", "test/terraform", "test/cmd/benchaws"},
	"k8s.io":                         {"partition/kube", "internal/kubelocal", "test/kubelet", "test/chart", "test/kube", "test/cmd/kubelocal"},
}

// TestArchitecture reads the code through the go command, which the test cache cannot see: run it
// with -count=1, as `make arch` does.
func TestArchitecture(t *testing.T) {
	g, err := load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range (rules{table, planned, reserved}).violations(g) {
		t.Error(v)
	}
}
