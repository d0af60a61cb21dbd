package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kinesin-io/kinesin/server"
)

// serveFlags are what a server is told.
type serveFlags struct {
	server.Config

	match      bool
	watch      bool
	growShards bool
	log        logFlags
	cpuProfile string
}

func (a *app) serveCommand() *cobra.Command {
	var s serveFlags
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run a server",
		Long: `Runs a server with all roles and prints where everything is. What it acknowledges is durable: on disk and synced, or in DynamoDB.

The store is embedded (pebble, in --data) or in DynamoDB, the queues are in memory or in SQS. Several processes may run over one DynamoDB store: they find
each other there and share the work out. The SDK of AWS finds region, credentials and endpoints as always: AWS_REGION, AWS_PROFILE,
AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL_DYNAMODB, AWS_ENDPOINT_URL_SQS and so on. 'kinesin aws setup' makes tables and queues.

SIGTERM and Ctrl-C drain: nothing new is accepted or fired, calls in hand are finished, the store is closed last. A second one ends it at once,
and loses nothing that was acknowledged either.

Without tokens it listens on loopback only. --auth-token-file names a file of tokens, one in a line, of which each call then needs one, and the metrics; then
--listen may be any address. --tls-cert-file and --tls-key-file make it speak TLS. All three files are read again when they change. /livez, /readyz and /healthz
answer without a token.`,
		Example: `  kinesin serve
  kinesin serve --data /var/lib/kinesin --listen 127.0.0.1:7171 --log-format json
  kinesin serve --store dynamodb --queue sqs --aws-prefix prod
  kinesin serve --listen 0.0.0.0:7070 --auth-token-file tokens --tls-cert-file tls.crt --tls-key-file tls.key`,
		Args: cobra.NoArgs,
	}
	s.add(c.Flags())
	c.RunE = does(func(ctx context.Context, _ []string) error {
		log, err := s.log.logger(a.Stderr)
		if err != nil {
			return err
		}
		s.Log, s.NoMatch, s.NoGrow, s.LeasesOnly = log, !s.match, !s.growShards, !s.watch
		s.PodName, s.PodNamespace = a.getenv("POD_NAME"), a.getenv("POD_NAMESPACE")
		if c.Flags().Changed("deliver-direct") && s.DeliverDirect == 0 {
			s.DeliverDirect = -1 // zero is the default
		}
		if !c.Flags().Changed("inbound-queue") {
			s.Inbound = s.Store == server.StoreDynamoDB && s.Queue == server.QueueSQS
		}
		return profiled(s.cpuProfile, func() error { return a.serve(ctx, s.Config) })
	})
	a.outputFlag(c.Flags())
	return c
}

func (s *serveFlags) add(f *pflag.FlagSet) {
	f.StringVar(&s.DataDir, "data", server.DataDirDefault, "`DIR` of the store; made when it is not there")
	f.StringVar(&s.Listen, "listen", server.ListenDefault, "`HOST:PORT`, on loopback unless calls need a token; port 0 takes a free one")
	f.StringSliceVar(&s.Roles, "roles", nil, "`ROLES` of this process, of "+strings.Join(server.Roles(), ",")+"; all when not set")
	f.IntVar(&s.PayloadBytesMax, "payload-max", 0, "largest payload in `BYTES`; 262144 when not set")
	f.Var(durationValue{d: &s.Horizon, min: time.Second}, "horizon", "how far ahead a task may be due; 10 years when not set")
	f.Var(durationValue{d: &s.Window, min: time.Millisecond}, "window", "how far the schedule is read ahead; 10s when not set, 16s with DynamoDB")
	f.Var(durationValue{d: &s.DrainMax, min: time.Millisecond}, "drain", "how long a stop may take; "+formatDuration(server.DrainMaxDefault)+" when not set")
	f.BoolVar(&s.match, "match", true, "hand a task that is to go out straight to a worker of this server that waits, where none waits longer; false: always through its queue")
	f.BoolVar(&s.AcceptLoss, "accept-loss", false, "start although logs of the store are damaged or not all there: go back to the moment before what is missing, and log what that is")
	f.BoolVar(&s.watch, "watch-workers", true, "take the tasks of a worker process on this machine back as soon as it has ended; false: when its lease is over (Linux)")
	settings(f, "data", "listen", "roles", "payload-max", "horizon", "window", "drain", "match", "watch-workers")
	f.StringVar(&s.cpuProfile, "cpu-profile", "", "write a CPU profile to this `FILE` until the server stops")
	s.addDoor(f)
	s.addMembership(f)
	s.addAWS(f)
	s.log.add(f)
}

// addDoor adds who may call, and how.
func (s *serveFlags) addDoor(f *pflag.FlagSet) {
	f.StringVar(&s.AuthTokenFile, "auth-token-file", "", "`FILE` with the tokens of which each call needs one, a token of 32 characters or more in a line")
	f.StringVar(&s.TLSCertFile, "tls-cert-file", "", "`FILE` with the server's certificate and those above it, in PEM: speak TLS")
	f.StringVar(&s.TLSKeyFile, "tls-key-file", "", "`FILE` with that certificate's key, in PEM")
	settings(f, "auth-token-file", "tls-cert-file", "tls-key-file")
}

// profiled runs act under the CPU profiler when there is a file to write to.
func profiled(path string, act func() error) error {
	if path == "" {
		return act()
	}
	file, err := os.Create(path) //nolint:gosec // the user names the file
	if err != nil {
		return usagef("CPU profile: %v", err)
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return errors.Join(fmt.Errorf("CPU profile: %w", err), file.Close())
	}
	err = act()
	pprof.StopCPUProfile()
	return errors.Join(err, file.Close())
}

// addMembership adds how processes over one store know each other.
func (s *serveFlags) addMembership(f *pflag.FlagSet) {
	f.Var(choiceValue{&s.Membership, server.Memberships()}, "membership",
		"how processes over one DynamoDB store know each other: store (by rows in it), kubernetes (by the pods of this one's Deployment, too) or static (by --members)")
	f.StringSliceVar(&s.Members, "members", nil, "`NAMES` of all members of a static membership, the same list for each")
	f.StringVar(&s.MemberName, "member-name", "", "which one of --members this process is")
	settings(f, "membership", "members", "member-name")
}

// addAWS adds what chooses and tunes the drivers.
func (s *serveFlags) addAWS(f *pflag.FlagSet) {
	s.Store, s.Queue = server.StorePebble, server.QueueMemory
	f.Var(choiceValue{&s.Store, server.Stores()}, "store", "where tasks are: pebble (in --data) or dynamodb")
	f.Var(choiceValue{&s.Queue, server.Queues()}, "queue", "where messages are: memory or sqs")
	awsPrefixFlag(f, &s.AWSPrefix)
	f.Var(durationValue{d: &s.DeliverDirect}, "deliver-direct",
		"up to how long before it is due a task of a deliver lambda goes straight to its queue; 0s to 15m, 15m when not set")
	f.IntVar(&s.MessageBytesMax, "message-max", 0, "largest SQS message in `BYTES`; 262144 when not set, up to 1048576 where SQS takes that")
	f.BoolVar(&s.Inbound, "inbound-queue", false, "buffer what is accepted in the SQS queue PREFIX-inbound, and take from there what others put; true with dynamodb and sqs")
	f.Float64Var(&s.InboundRate, "inbound-rate", 0, "how many `TASKS` a second go from there to the store; negative: no bound")
	f.IntVar(&s.InboundConcurrency, "inbound-concurrency", 0, "how many `RECEIVES` run at a time there")
	f.BoolVar(&s.growShards, "grow-shards", true, "with DynamoDB: give a lambda more shards, up to 64, when one is near what a key takes")
	settings(f, "grow-shards", "store", "queue", "deliver-direct", "message-max", "inbound-queue", "inbound-rate", "inbound-concurrency")
}

// serve runs a server until a signal, or the end of ctx, has drained it.
func (a *app) serve(ctx context.Context, c server.Config) error {
	ctx, stop := untilSignal(ctx)
	defer stop()
	s, err := newServer(ctx, c)
	if err != nil {
		return err
	}
	if err := a.printServer(s); err != nil {
		return err
	}
	return s.Run(ctx)
}

// newServer opens a server; a configuration that it refuses is bad usage.
func newServer(ctx context.Context, c server.Config) (*server.Server, error) {
	s, err := server.New(ctx, c)
	if errors.Is(err, server.ErrConfig) {
		return nil, usagef("%v", err)
	}
	return s, awsFailure(err)
}

// untilSignal is a context that SIGTERM or Ctrl-C ends. The second one then
// does what it would have done without this.
func untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// serverObject says where everything is.
type serverObject struct {
	URL     string   `json:"url"`
	Metrics string   `json:"metrics"`
	Healthz string   `json:"healthz"`
	Livez   string   `json:"livez"`
	Readyz  string   `json:"readyz"`
	Data    string   `json:"data,omitempty"` // of the embedded store
	Store   string   `json:"store"`
	Queue   string   `json:"queue"`
	Prefix  string   `json:"aws_prefix,omitempty"`
	Roles   []string `json:"roles"`
	Version string   `json:"version"`
}

func (a *app) printServer(s *server.Server) error {
	c := s.Config()
	url := s.URL()
	o := serverObject{
		URL: url, Metrics: url + "/metrics", Healthz: url + "/healthz", Livez: url + "/livez", Readyz: url + "/readyz",
		Store: c.Store, Queue: c.Queue, Prefix: c.AWSPrefix, Roles: c.Roles, Version: a.version(),
	}
	where := "tables " + o.Prefix + "-… on DynamoDB"
	if c.Store == server.StorePebble {
		var err error
		if o.Data, err = filepath.Abs(c.DataDir); err != nil {
			o.Data = c.DataDir
		}
		where = o.Data
	}
	if a.json() {
		return printJSON(a.Stdout, o)
	}
	tokens, queues := "", ""
	if c.AuthTokenFile != "" {
		tokens = "\n  tokens   " + c.AuthTokenFile + ": each call needs one, and the metrics"
	}
	if c.Queue == server.QueueSQS {
		queues = "\n  queues   " + o.Prefix + "-… on SQS"
	}
	_, err := fmt.Fprintf(a.Stdout, `kinesin %s is serving
  API      %s (gRPC, gRPC-Web and JSON over HTTP)
  metrics  %s
  health   %s, %s%s
  data     %s%s
  roles    %s
`, o.Version, o.URL, o.Metrics, o.Livez, o.Readyz, tokens, where, queues, strings.Join(o.Roles, ", "))
	return err
}
