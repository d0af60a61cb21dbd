package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kinesin-io/kinesin/cmd/settings"
	"github.com/kinesin-io/kinesin/internal/feature/audit"
	"github.com/kinesin-io/kinesin/server"
)

// serveFlags are the flags of serve.
type serveFlags struct {
	server.Config

	match       bool
	console     bool
	watch       bool
	growShards  bool
	policies    bool // of new queues
	auditStdout bool
	native      bool // histograms
	log         logFlags
	cpuProfile  string
}

func (a *app) serveCommand() *cobra.Command {
	var s serveFlags
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run a server",
		Long: `Runs a server with all roles and prints its addresses. Tasks that it acknowledges are durable: synced to disk, or in DynamoDB.

The store is embedded (pebble, in --data) or DynamoDB, the queues are in memory or SQS. Several processes may share a DynamoDB store:
they find each other in it and share the work. Region, credentials and endpoints are found as by every program with the AWS SDK:
AWS_REGION, AWS_PROFILE, AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL_DYNAMODB, AWS_ENDPOINT_URL_SQS and so on. 'kinesin aws setup' creates
tables and queues.

SIGTERM and Ctrl-C drain the server: it accepts and starts nothing new, finishes calls in flight and closes the store. A second
signal ends it at once; nothing that was acknowledged is lost. A service manager that sets NOTIFY_SOCKET, as systemd does, hears when
the server is ready, that it lives (for a watchdog) and that it stops.

Without tokens it listens on loopback only. With --auth-token-file, a file with a token in each line, or --policy, a file of identities
and what each may do, every call and the metrics need a token, and --listen may be any address. --tls-cert-file and --tls-key-file
turn on TLS. These files are read again when they change. /livez, /readyz and /healthz need no token.`,
		Example: `  kinesin serve
  kinesin serve --data /var/lib/kinesin --listen 127.0.0.1:7171 --log-format json
  kinesin serve --store dynamodb --queue sqs --aws-prefix prod
  kinesin serve --listen 0.0.0.0:7070 --auth-token-file tokens --tls-cert-file tls.crt --tls-key-file tls.key
  kinesin serve --listen 0.0.0.0:7070 --policy policy.yaml --tls-cert-file tls.crt --tls-key-file tls.key`,
		Args: cobra.NoArgs,
	}
	s.add(c.Flags())
	return a.acting(c, func(ctx context.Context, _ []string) error {
		return profiled(s.cpuProfile, func() error { return a.serve(ctx, s.config(a, c.Flags()), s.log.sayer(a)) })
	})
}

// config returns the configuration of a server that the flags and the environment ask for.
func (s *serveFlags) config(a *app, given *pflag.FlagSet) server.Config {
	s.Log, s.LogControl = s.log.controlled(a.Stderr)
	s.NoMatch, s.NoGrow, s.LeasesOnly, s.NoQueuePolicies = !s.match, !s.growShards, !s.watch, !s.policies
	s.NoNativeHistograms, s.Version = !s.native, a.version()
	s.NoConsole = !s.console
	s.PodName, s.PodNamespace = a.getenv("POD_NAME"), a.getenv("POD_NAMESPACE")
	if given.Changed("deliver-direct") && s.DeliverDirect == 0 {
		s.DeliverDirect = -1 // zero is the default
	}
	s.OTLPEndpoint = cmp.Or(s.OTLPEndpoint, a.getenv("OTEL_EXPORTER_OTLP_ENDPOINT"))
	if s.OTLPByEnv = s.TraceSample == 0 && a.tracesByEnv(); s.OTLPByEnv {
		s.TraceSample = a.shareByEnv()
	}
	if s.auditStdout {
		s.AuditTo = a.Stdout
	}
	if !given.Changed("inbound-queue") {
		s.Inbound = s.Store == server.StoreDynamoDB && s.Queue == server.QueueSQS
	}
	return s.Config
}

func (s *serveFlags) add(f *pflag.FlagSet) {
	f.StringVar(&s.DataDir, "data", server.DataDirDefault, "`DIR` of the store; created if it does not exist")
	f.StringVar(&s.Listen, "listen", server.ListenDefault, "`HOST:PORT` to listen on, on loopback unless --auth-token-file is set; port 0 means a free one")
	f.StringSliceVar(&s.Roles, "roles", nil, "`ROLES` of this process, of "+strings.Join(server.Roles(), ",")+"; all when not set")
	f.Var(whole(&s.PayloadBytesMax, 0), "payload-max", "largest payload in `BYTES`; 262144 when not set")
	f.StringVar(&s.Blobs, "blobs", "", "directory or s3://BUCKET/PREFIX, `PLACE` of larger payloads, which this server deletes there when no task needs them")
	f.Var(durationValue{d: &s.Horizon, min: time.Second}, "horizon", "how far ahead a task may be due; 10 years when not set")
	f.Var(durationValue{d: &s.Window, min: time.Millisecond}, "window", "look-ahead: how far before they are due tasks are read; 10s when not set, 16s with DynamoDB, there at most 18s")
	f.Var(durationValue{d: &s.DrainMax, min: time.Millisecond}, "drain", "how long a drain may take; "+formatDuration(server.DrainMaxDefault)+" when not set")
	f.BoolVar(&s.match, "match", true, "direct hand-off: give a due task to a waiting worker of this server, if no other task waits longer; false: always use the queue")
	f.BoolVar(&s.AcceptLoss, "accept-loss", false, "start although logs of the store are damaged or missing: go back to the state before the loss, and log what is lost")
	f.BoolVar(&s.watch, "watch-workers", true, "take back the tasks of a worker process on this machine as soon as it has ended; false: when its lease is over (Linux)")
	f.StringVar(&s.BackupTo, "backup-to", "", "directory or s3://BUCKET/PREFIX, `PLACE` of continuous backups of the embedded store, for 'kinesin restore' and 'kinesin standby'")
	f.Var(durationValue{d: &s.BackupEvery, min: time.Second}, "backup-every", "how often a recovery point is put there, if anything changed; "+formatDuration(server.BackupEveryDefault)+" when not set")
	f.Var(durationValue{d: &s.BackupKeep, min: time.Hour}, "backup-keep", "how long recovery points stay, after the first hour one for each hour; "+formatDuration(server.BackupKeepDefault)+" when not set")
	settings.Mark(f, "data", "listen", "roles", "payload-max", "blobs", "horizon", "window", "drain", "match", "watch-workers", "backup-to", "backup-every", "backup-keep")
	f.StringVar(&s.cpuProfile, "cpu-profile", "", "write a CPU profile to this `FILE` until the server stops")
	s.addConsole(f)
	s.addBounds(f)
	s.addMetrics(f)
	s.addAuth(f)
	s.addMembership(f)
	s.addAWS(f)
	s.log.add(f)
}

// addConsole adds the flags of the pages for browsers.
func (s *serveFlags) addConsole(f *pflag.FlagSet) {
	f.BoolVar(&s.console, "console", true, "serve the console, pages for operators, under /ui/")
	f.BoolVar(&s.ConsoleReadOnly, "console-read-only", false, "the console changes nothing, whatever its viewers may do")
	f.Var(intValue{n: &s.ConsoleRowsMax, min: 1}, "console-forecast-rows", "how many `ROWS` the console reads at a time to count what will be due; 1000000 when not set, 2000 with DynamoDB")
	f.StringVar(&s.TraceURL, "trace-url", "", "`URL` to which the console links for the trace of a task, such as https://traces.example/trace/{trace_id}")
	f.StringVar(&s.ConsoleOIDC.Issuer, "console-oidc-issuer", "", "`URL` of an OpenID Connect issuer of the policy, at whose page browsers sign in to the console")
	f.StringVar(&s.ConsoleOIDC.ClientID, "console-oidc-client-id", "", "`ID` of the client of the console that is registered there")
	f.StringVar(&s.ConsoleOIDC.ClientSecretFile, "console-oidc-client-secret-file", "", "`FILE` with the secret of that client, read again when it changes; without one PKCE alone tells it from others")
	f.StringSliceVar(&s.ConsoleOIDC.Scopes, "console-oidc-scopes", nil, "`SCOPES` that are asked for besides openid; email when not set")
	f.StringVar(&s.ConsoleOIDC.RedirectURL, "console-oidc-redirect-url", "", "`URL` to which the provider leads back, as it is registered there, https://HOST/ui/signin/callback; when not set, by the name that the browser uses")
	settings.Mark(f, "console", "console-read-only", "console-forecast-rows", "console-oidc-issuer", "console-oidc-client-id", "console-oidc-client-secret-file",
		"console-oidc-scopes", "console-oidc-redirect-url", "trace-url")
}

// addBounds adds the flags that bound what callers can make a server keep.
func (s *serveFlags) addBounds(f *pflag.FlagSet) {
	s.LambdasMax, s.LambdaPartitionsMax, s.PartitionsMax = server.LambdasMaxDefault, server.LambdaPartitionsMaxDefault, server.PartitionsMaxDefault
	f.Var(intValue{n: &s.LambdasMax, min: 1}, "lambdas-max", "how many `LAMBDAS` there may be; those that exist are kept")
	f.Var(intValue{n: &s.LambdaPartitionsMax, min: 1}, "lambda-partitions-max", "how many `PARTITIONS` a lambda may have: its shards times its priorities")
	f.Var(intValue{n: &s.PartitionsMax, min: 1}, "partitions-max", "how many `PARTITIONS` all lambdas together may have")
	f.Var(whole(&s.ConnectionsPerAddress, 0), "connections-per-address", "how many `CONNECTIONS` one address may have; half of all when not set")
	settings.Mark(f, "lambdas-max", "lambda-partitions-max", "partitions-max", "connections-per-address")
}

// tracesByEnv reports whether OpenTelemetry's own environment variables turn on traces.
func (a *app) tracesByEnv() bool {
	if a.getenv("OTEL_SDK_DISABLED") == "true" || a.getenv("OTEL_TRACES_EXPORTER") == "none" || a.getenv("OTEL_TRACES_SAMPLER") == "" {
		return false
	}
	return a.getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || a.getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

// shareByEnv returns the share of OpenTelemetry's variables where they ask for what --trace-sample does,
// which the server draws at less cost. It returns 0 where they ask for something else, or cannot be read,
// which their library says.
func (a *app) shareByEnv() float64 {
	share, err := strconv.ParseFloat(a.getenv("OTEL_TRACES_SAMPLER_ARG"), 64)
	if a.getenv("OTEL_TRACES_SAMPLER") != "parentbased_traceidratio" || err != nil || !(share > 0 && share <= 1) {
		return 0
	}
	return share
}

// addMetrics adds the flags for metrics.
func (s *serveFlags) addMetrics(f *pflag.FlagSet) {
	s.MetricLambdas = server.MetricLambdasDefault
	f.Var(intValue{n: &s.MetricLambdas, min: 1}, "metric-lambdas", "how many `LAMBDAS` have series of their own: those that are used most; the others share the label other")
	f.BoolVar(&s.native, "native-histograms", true, "also have native histograms, for a Prometheus that scrapes them; false: classic ones only")
	settings.Mark(f, "metric-lambdas", "native-histograms")
}

// addAuth adds the flags for tokens and TLS.
func (s *serveFlags) addAuth(f *pflag.FlagSet) {
	f.StringVar(&s.AuthTokenFile, "auth-token-file", "", "`FILE` with accepted tokens, each a line of 32 characters or more, which may do everything; every call then needs a token")
	f.StringVar(&s.PolicyFile, "policy", "", "YAML `FILE` of identities and what each may do; every call then needs a token or certificate")
	f.Var(durationValue{d: &s.AuditKeep, min: time.Hour}, "audit-keep", "how long audit records are kept; "+formatDuration(audit.KeepDefault)+" when not set")
	f.BoolVar(&s.auditStdout, "audit-stdout", false, "also print each audit record to stdout, as a line of JSON")
	f.StringVar(&s.TLSCertFile, "tls-cert-file", "", "PEM `FILE` with the server's certificate chain, to use TLS")
	f.StringVar(&s.TLSKeyFile, "tls-key-file", "", "PEM `FILE` with the key of the certificate")
	f.StringVar(&s.OTLPEndpoint, "otlp-endpoint", "", "base `URL` of an OpenTelemetry collector (OTLP over HTTP) that also gets each audit record, and traces and metrics if they are on; OTEL_EXPORTER_OTLP_ENDPOINT when not set")
	f.Var(number(&s.TraceSample, 0), "trace-sample", "`SHARE` of calls that begin a trace, 0 to 1, for the collector; OTEL_TRACES_SAMPLER when not set, or else none")
	f.BoolVar(&s.OTLPMetrics, "otlp-metrics", false, "also send the metrics to the collector, every minute or OTEL_METRIC_EXPORT_INTERVAL")
	settings.Mark(f, "auth-token-file", "policy", "audit-keep", "audit-stdout", "otlp-endpoint", "trace-sample", "otlp-metrics", "tls-cert-file", "tls-key-file")
}

// profiled runs act with the CPU profiler if there is a path to write to.
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

// addMembership adds the flags for the servers that share a store.
func (s *serveFlags) addMembership(f *pflag.FlagSet) {
	f.Var(choiceValue{&s.Membership, server.Memberships()}, "membership",
		"how servers that share a DynamoDB store find each other: store (rows in the store; when not set), kubernetes (also the pods of the Deployment) or static (--members)")
	f.StringSliceVar(&s.Members, "members", nil, "`NAMES` of all members with static membership, the same list on each")
	f.StringVar(&s.MemberName, "member-name", "", "the name of this process in --members")
	settings.Mark(f, "membership", "members", "member-name")
}

// addAWS adds the flags for the drivers.
func (s *serveFlags) addAWS(f *pflag.FlagSet) {
	s.Store, s.Queue = server.StorePebble, server.QueueMemory
	f.Var(choiceValue{&s.Store, server.Stores()}, "store", "where tasks are stored: pebble (in --data) or dynamodb")
	f.Var(choiceValue{&s.Queue, server.Queues()}, "queue", "where messages are queued: memory or sqs")
	awsPrefixFlag(f, &s.AWSPrefix)
	queuePoliciesFlag(f, &s.policies)
	f.Var(durationValue{d: &s.DeliverDirect}, "deliver-direct",
		"how long before its due time a task of a deliver lambda may go straight to its queue; 0s to 15m, 15m when not set")
	f.Var(whole(&s.MessageBytesMax, 0), "message-max", "largest SQS message in `BYTES`; 4096 to 1048576, if the queues allow it; 262144 when not set")
	f.BoolVar(&s.Inbound, "inbound-queue", false, "buffer accepted tasks in the SQS queue PREFIX-inbound, and consume it; true with dynamodb and sqs when not set")
	f.Var(number(&s.InboundRate, 0), "inbound-rate", "how many `TASKS` a second go from the inbound queue to the store; negative: no limit")
	f.Var(whole(&s.InboundConcurrency, 0), "inbound-concurrency", "how many `RECEIVES` of the inbound queue run at a time")
	f.BoolVar(&s.growShards, "grow-shards", true, "give a lambda more shards, up to 64, when one nears the write limit of a DynamoDB key")
	settings.Mark(f, "grow-shards", "store", "queue", "deliver-direct", "message-max", "inbound-queue", "inbound-rate", "inbound-concurrency")
}

// serve runs a server until a signal or the end of ctx, then drains it.
func (a *app) serve(ctx context.Context, c server.Config, say func(format string, args ...any)) error {
	ctx, stop := untilSignal(ctx)
	defer stop()
	s, err := newServer(ctx, c)
	if err != nil {
		return err
	}
	if err := a.printServer(s); err != nil {
		return err
	}
	if err := s.Run(ctx); err != nil {
		return err
	}
	say("stopped: all tasks are kept in %s, and the same command goes on with them", placeOf(s.Config()))
	return nil
}

// placeOf says where a server keeps its tasks.
func placeOf(c server.Config) string {
	if c.Store != server.StorePebble {
		return "tables " + c.AWSPrefix + "-… on DynamoDB"
	}
	if path, err := filepath.Abs(c.DataDir); err == nil {
		return path
	}
	return c.DataDir
}

// newServer opens a server.
func newServer(ctx context.Context, c server.Config) (*server.Server, error) {
	s, err := server.New(ctx, c)
	return s, explainServer(err)
}

// untilSignal returns a context that the first SIGTERM or Ctrl-C ends. A second one ends the process.
func untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// serverObject has the addresses of a server in JSON.
type serverObject struct {
	URL     string   `json:"url"`
	Console string   `json:"console,omitempty"`
	Metrics string   `json:"metrics"`
	Healthz string   `json:"healthz"`
	Livez   string   `json:"livez"`
	Readyz  string   `json:"readyz"`
	Data    string   `json:"data,omitempty"` // embedded store only
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
		URL: url, Console: s.ConsoleURL(), Metrics: url + "/metrics", Healthz: url + "/healthz", Livez: url + "/livez", Readyz: url + "/readyz",
		Store: c.Store, Queue: c.Queue, Prefix: c.AWSPrefix, Roles: c.Roles, Version: a.version(),
	}
	where := placeOf(c)
	if c.Store == server.StorePebble {
		o.Data = where
	}
	if a.json() {
		return printJSON(a.Stdout, o)
	}
	tokens, queues, console := "", "", ""
	if o.Console != "" {
		console = "\n  console  " + o.Console
	}
	if c.AuthTokenFile != "" {
		tokens = "\n  tokens   " + c.AuthTokenFile + ": needed by each call, and for the metrics"
	}
	if c.PolicyFile != "" {
		tokens += "\n  policy   " + c.PolicyFile + ": who may do what; each call needs a token or a certificate"
	}
	if c.Queue == server.QueueSQS {
		queues = "\n  queues   " + o.Prefix + "-… on SQS"
	}
	_, err := fmt.Fprintf(a.Stdout, `kinesin %s is serving
  API      %s (gRPC, gRPC-Web and JSON over HTTP)%s
  metrics  %s
  health   %s, %s%s
  data     %s%s
  roles    %s
`, o.Version, o.URL, console, o.Metrics, o.Livez, o.Readyz, tokens, where, queues, strings.Join(o.Roles, ", "))
	return err
}
