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
		Long: `Runs a server and prints its addresses. Tasks that it acknowledges are durable: synced to disk, or in DynamoDB.

The store is embedded (pebble, in --data) or DynamoDB, the queues are in memory or SQS. Several processes may share a
DynamoDB store: they find each other in it and share the work. 'kinesin aws setup' creates tables and queues.
docs/reference/configuration.md describes all settings.

Without --auth-token-file and --policy it listens on loopback only; with one of them every call needs a token, except
/livez, /readyz and /healthz. Files of tokens, identities and certificates are read again when they change.

SIGTERM and Ctrl-C drain the server: it accepts and starts nothing new, finishes calls in flight and closes the store. A
second signal ends it at once; nothing that was acknowledged is lost. It tells systemd (NOTIFY_SOCKET) when it is ready.

Exit 2 for a setting that is refused, such as an address beyond loopback without tokens. Exit 3 when AWS, Kubernetes or the
clock is not as it must be; the text names what is missing. Exit 1 when the port or the data directory is in use, the store
cannot be opened, or AWS cannot be reached.`,
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
	f.StringVar(&s.Listen, "listen", server.ListenDefault, "`HOST:PORT` to listen on; beyond loopback only with tokens; port 0 means a free one")
	f.StringSliceVar(&s.Roles, "roles", nil, "`ROLES` of this process, of "+strings.Join(server.Roles(), ",")+"; all when not set")
	f.Var(whole(&s.PayloadBytesMax, 0), "payload-max", "largest payload in `BYTES`; 262144 when not set")
	f.StringVar(&s.Blobs, "blobs", "", "`PLACE` of larger payloads (see --blobs of a client), where this server deletes what no task needs")
	f.Var(durationValue{d: &s.Horizon, min: time.Second}, "horizon", "how far ahead a task may be due; 10 years when not set")
	f.Var(durationValue{d: &s.Window, min: time.Millisecond}, "window", "look-ahead: how long before they are due tasks are read, with DynamoDB at most 18s; 10s, or 16s with DynamoDB, when not set")
	f.Var(durationValue{d: &s.DrainMax, min: time.Millisecond}, "drain", "how long a drain may take; "+formatDuration(server.DrainMaxDefault)+" when not set")
	f.BoolVar(&s.match, "match", true, "give a due task straight to a waiting worker of this server, past the queue")
	f.BoolVar(&s.AcceptLoss, "accept-loss", false, "start although logs of the store are damaged or missing, from the state before, and log what is lost")
	f.BoolVar(&s.watch, "watch-workers", true, "take back the tasks of a worker on this machine as soon as its process has ended (Linux)")
	f.StringVar(&s.BackupTo, "backup-to", "", "directory or s3://BUCKET/PREFIX, `PLACE` of continuous backups of the embedded store")
	f.Var(durationValue{d: &s.BackupEvery, min: time.Second}, "backup-every", "how often to back up, if anything changed; "+formatDuration(server.BackupEveryDefault)+" when not set")
	f.Var(durationValue{d: &s.BackupKeep, min: time.Hour}, "backup-keep", "how long recovery points stay, one an hour after the first hour; "+formatDuration(server.BackupKeepDefault)+" when not set")
	settings.Mark(f, "data", "listen", "roles", "payload-max", "blobs", "horizon", "window", "drain", "match", "watch-workers", "backup-to", "backup-every", "backup-keep")
	f.StringVar(&s.cpuProfile, "cpu-profile", "", "write a CPU profile to this `FILE` until the server stops")
	f.StringSliceVar(&s.TargetsAllow, "targets-allow", nil, "`RANGES` of addresses that targets of lambdas may have besides public ones, such as 10.1.0.0/16")
	f.StringSliceVar(&s.TargetsFunctions, "targets-functions", nil, "`ARNS` of the functions of AWS Lambda that targets of lambdas may be, in which a star stands for any characters; when not set all, or none if calls need a token")
	f.StringVar(&s.TargetsIdentities, "targets-identities", "", "JSON `FILE` with as whom hosts of targets are called: a list of host, token_file, cert_file, key_file and ca_file")
	settings.Mark(f, "targets-allow", "targets-functions", "targets-identities")
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
	f.BoolVar(&s.console, "console", true, "serve the console under /ui/")
	f.BoolVar(&s.ConsoleReadOnly, "console-read-only", false, "the console changes nothing, whoever looks")
	f.Var(intValue{n: &s.ConsoleRowsMax, min: 1}, "console-forecast-rows", "how many `ROWS` the console reads to forecast what is due; 1000000, or 2000 with DynamoDB, when not set")
	f.StringVar(&s.TraceURL, "trace-url", "", "`URL` of the trace of a task for the console, such as https://traces.example/trace/{trace_id}")
	f.StringVar(&s.ConsoleOIDC.Issuer, "console-oidc-issuer", "", "`URL` of an issuer of the policy where browsers sign in to the console (OpenID Connect)")
	f.StringVar(&s.ConsoleOIDC.ClientID, "console-oidc-client-id", "", "client `ID` of the console there")
	f.StringVar(&s.ConsoleOIDC.ClientSecretFile, "console-oidc-client-secret-file", "", "`FILE` with the secret of that client; PKCE alone when not set")
	f.StringSliceVar(&s.ConsoleOIDC.Scopes, "console-oidc-scopes", nil, "`SCOPES` to ask for besides openid; email when not set")
	f.StringVar(&s.ConsoleOIDC.RedirectURL, "console-oidc-redirect-url", "", "`URL` to come back to, https://HOST/ui/signin/callback; the name that the browser uses when not set")
	settings.Mark(f, "console", "console-read-only", "console-forecast-rows", "console-oidc-issuer", "console-oidc-client-id", "console-oidc-client-secret-file",
		"console-oidc-scopes", "console-oidc-redirect-url", "trace-url")
}

// addBounds adds the flags that bound what callers can make a server keep.
func (s *serveFlags) addBounds(f *pflag.FlagSet) {
	s.LambdasMax, s.LambdaPartitionsMax, s.PartitionsMax = server.LambdasMaxDefault, server.LambdaPartitionsMaxDefault, server.PartitionsMaxDefault
	f.Var(intValue{n: &s.LambdasMax, min: 1}, "lambdas-max", "how many `LAMBDAS` there may be")
	f.Var(intValue{n: &s.LambdaPartitionsMax, min: 1}, "lambda-partitions-max", "how many `PARTITIONS` (shards × priorities) a lambda may have")
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
	f.Var(intValue{n: &s.MetricLambdas, min: 1}, "metric-lambdas", "how many `LAMBDAS` have series of their own, those used most; the others share the label other")
	f.BoolVar(&s.native, "native-histograms", true, "also have native histograms")
	settings.Mark(f, "metric-lambdas", "native-histograms")
}

// addAuth adds the flags for tokens and TLS.
func (s *serveFlags) addAuth(f *pflag.FlagSet) {
	f.StringVar(&s.AuthTokenFile, "auth-token-file", "", "`FILE` with a token in each line, 32 characters or more, that may do everything; every call then needs one")
	f.StringVar(&s.PolicyFile, "policy", "", "YAML `FILE` of identities and their grants; every call then needs a token or certificate")
	f.Var(durationValue{d: &s.AuditKeep, min: time.Hour}, "audit-keep", "how long audit records are kept; "+formatDuration(audit.KeepDefault)+" when not set")
	f.BoolVar(&s.auditStdout, "audit-stdout", false, "also print each audit record to stdout, as a line of JSON")
	f.StringVar(&s.TLSCertFile, "tls-cert-file", "", "PEM `FILE` with the server's certificate chain, for TLS")
	f.StringVar(&s.TLSKeyFile, "tls-key-file", "", "PEM `FILE` with the key of the certificate")
	f.StringVar(&s.OTLPEndpoint, "otlp-endpoint", "", "`URL` of an OpenTelemetry collector (OTLP over HTTP), which also gets audit records; OTEL_EXPORTER_OTLP_ENDPOINT when not set")
	f.Var(number(&s.TraceSample, 0), "trace-sample", "`SHARE` of calls that begin a trace, 0 to 1; OTEL_TRACES_SAMPLER when not set")
	f.BoolVar(&s.OTLPMetrics, "otlp-metrics", false, "also send metrics to the collector, every minute or OTEL_METRIC_EXPORT_INTERVAL")
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
		"how servers over one DynamoDB store find each other: by rows in it (store), also by pods (kubernetes), or by --members (static); store when not set")
	f.StringSliceVar(&s.Members, "members", nil, "`NAMES` of all static members, the same list on each")
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
		"how long before it is due a task of a deliver lambda may go to its queue, 0s to 15m; 15m when not set")
	f.Var(whole(&s.MessageBytesMax, 0), "message-max", "largest SQS message in `BYTES`, 4096 to 1048576; 262144 when not set")
	f.BoolVar(&s.Inbound, "inbound-queue", false, "buffer accepted tasks in the SQS queue PREFIX-inbound, the same on all servers; true with dynamodb and sqs when not set")
	f.Var(number(&s.InboundRate, 0), "inbound-rate", "how many `TASKS` a second go from the inbound queue to the store, negative for no limit; 2000 when not set")
	f.Var(whole(&s.InboundConcurrency, 0), "inbound-concurrency", "how many `RECEIVES` of the inbound queue run at a time; 4 when not set")
	f.BoolVar(&s.growShards, "grow-shards", true, "give a lambda more shards, up to 64, when one nears the limit of a DynamoDB key")
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
