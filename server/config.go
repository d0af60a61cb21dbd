package server

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kinesin-io/kinesin/internal/logging"
	"github.com/kinesin-io/kinesin/internal/node"
	"github.com/kinesin-io/kinesin/internal/otlp"
	"github.com/kinesin-io/kinesin/store/dynamo"
	"github.com/kinesin-io/kinesin/web"
)

// ErrConfig is returned for an invalid configuration; the text says what is allowed.
var ErrConfig = errors.New("configuration refused")

// Config configures a Server. The zero value of each field means its default.
type Config struct {
	DataDir string   // of the embedded store; ./kinesin-data
	Listen  string   // host:port, beyond loopback only with AuthTokenFile or PolicyFile; 127.0.0.1:7070
	Roles   []string // all
	Log     *slog.Logger
	// LogControl is behind Log, if its levels can be changed and its last lines be read; nil: not.
	LogControl *logging.Log

	// AcceptLoss starts although logs of the embedded store are damaged or missing, with the state before the
	// loss.
	AcceptLoss bool

	// TargetsAllow are ranges of addresses, such as 10.1.0.0/16, that targets of lambdas may have besides public
	// ones.
	TargetsAllow []string
	// TargetsIdentities is a file that says as whom hosts of targets are called: httptarget.Identity.
	TargetsIdentities string
	// TargetsFunctions are the ARNs of the functions of AWS Lambda that may be targets of lambdas, in which a star
	// stands for any characters. Empty: all if calls need no token, else none.
	TargetsFunctions []string

	// AuthTokenFile holds accepted tokens, one per line, of one identity that may do everything.
	AuthTokenFile string
	// PolicyFile defines identities and what each may do (docs/how-to/access.md). Without it and AuthTokenFile
	// calls need no token.
	PolicyFile string
	// AuditKeep is how long audit records are kept; 90 days.
	AuditKeep time.Duration
	// AuditTo gets each audit record as a line of JSON; nil: nobody.
	AuditTo io.Writer
	// MetricLambdas is how many lambdas have series of their own, those that are used most; 200.
	MetricLambdas int
	// NoNativeHistograms leaves native histograms out of the metrics; the classic ones stay.
	NoNativeHistograms bool
	// Version is that of the program, for metrics and the console; empty: what the Go toolchain recorded.
	Version string
	// OTLPEndpoint is the base URL of an OpenTelemetry collector that gets the audit records; empty: none. It
	// also gets traces and metrics where these are turned on.
	OTLPEndpoint string
	// TraceSample is the share of calls that begin a trace, 0 to 1; a call that comes with a sampled trace is
	// traced, too. 0: nothing is traced.
	TraceSample float64
	// OTLPByEnv takes the endpoint and the sampler of traces from OpenTelemetry's own environment variables.
	OTLPByEnv bool
	// OTLPMetrics sends the metrics as well.
	OTLPMetrics bool
	// TLSCertFile and TLSKeyFile hold, in PEM, the certificate chain of this server and its key; empty: no
	// TLS. All three files are read again when they change.
	TLSCertFile, TLSKeyFile string

	// NoConsole serves no pages for browsers. ConsoleReadOnly serves pages that change nothing.
	NoConsole, ConsoleReadOnly bool
	// ConsoleRowsMax bounds the rows that the console reads to count what will be due; 1,000,000, of a store
	// on AWS 2,000.
	ConsoleRowsMax int
	// TraceURL is where the console links to for the trace of a task, with {trace_id} in place of its id;
	// empty: it does not.
	TraceURL string
	// ConsoleOIDC lets browsers sign in to the console at the page of an OpenID Connect provider.
	ConsoleOIDC ConsoleOIDC

	Store string // StorePebble or StoreDynamoDB; StorePebble
	Queue string // QueueMemory or QueueSQS; QueueMemory
	// AWSPrefix begins the names of all tables and queues on AWS: 1 to 20 characters of a-z, A-Z, 0-9, - and
	// _. It has no default, since two installations with one prefix would take each other's messages.
	AWSPrefix string

	// Membership is how processes with the scheduler's role that share a store find each other: one of
	// Memberships; MembershipStore. A process with an embedded store is alone and has none.
	Membership string
	Members    []string // of MembershipStatic: all members, this one included
	MemberName string   // of MembershipStatic: the name of this process among them
	// PodName and PodNamespace name the pod of this process, for MembershipKubernetes.
	PodName, PodNamespace string

	PayloadBytesMax int           // largest payload, in bytes; 256 KiB
	Blobs           string        // directory or s3://BUCKET/PREFIX whose blobs are deleted when no task needs them; empty: none
	BackupTo        string        // directory or s3://BUCKET/PREFIX for continuous backups of an embedded store; empty: none
	BackupEvery     time.Duration // between two recovery points; 10 s
	BackupKeep      time.Duration // how long they are kept; a week
	Horizon         time.Duration // how far ahead a task may be due; 10 years
	Window          time.Duration // how far ahead a partition is read; 10 s, of a store on AWS 16 s
	DrainMax        time.Duration // how long a stop may take; 10 s
	// NoMatch turns off direct hand-off: all tasks go through their queues.
	NoMatch bool
	// LeasesOnly makes a worker lost only when its lease ends, even if its process on this machine is seen to
	// have ended.
	LeasesOnly bool
	// LambdasMax bounds the lambdas of the installation, LambdaPartitionsMax the partitions of one of them
	// (its shards times its priorities), and PartitionsMax those of all together. Existing ones are kept.
	LambdasMax, LambdaPartitionsMax, PartitionsMax int
	// ConnectionsPerAddress bounds the connections of one address, or one /64 of IPv6: half of all that the
	// process may have.
	ConnectionsPerAddress int
	// NoQueuePolicies says that SQS queues that this process makes get no policy.
	NoQueuePolicies bool
	// NoGrow never adds shards to a lambda by itself.
	NoGrow bool
	// DeliverDirect is how soon a task of a deliver lambda must be due to go straight to its queue, without a
	// row in the store. 15 minutes, which is the longest; negative: never.
	DeliverDirect time.Duration
	// MessageBytesMax is the largest SQS message: 256 KiB; up to 1 MiB if queues and region allow it.
	MessageBytesMax int

	// Inbound buffers accepted tasks in an SQS queue, from which they go to the store at a steady rate.
	Inbound            bool
	InboundRate        float64 // tasks per second; 0: inbound's default
	InboundConcurrency int     // receives at a time; 0: inbound's default
}

// Drivers of the store and the queue.
const (
	StorePebble   = "pebble"
	StoreDynamoDB = "dynamodb"
	QueueMemory   = "memory"
	QueueSQS      = "sqs"
)

// Roles lists the roles that a process can have, in the order in which work flows through them.
func Roles() []string { return append(node.Roles(), RoleTargets) }

// Stores lists the drivers of the store, Queues those of the queue.
func Stores() []string { return []string{StorePebble, StoreDynamoDB} }

// Queues lists the drivers of the queue.
func Queues() []string { return []string{QueueMemory, QueueSQS} }

// Limits of Config.
const (
	messageBytesMin, messageBytesCeil = 4 << 10, 1 << 20
	inboundConcurrencyMax             = 256
	windowSharedMax                   = 18 * time.Second // less than twice intake.NearDefault
	deliverDirectMax                  = 15 * time.Minute // as long as SQS holds a message back
)

// Defaults of Config.
const (
	DataDirDefault  = "./kinesin-data"
	ListenDefault   = "127.0.0.1:7070"
	DrainMaxDefault = 10 * time.Second

	MetricLambdasDefault = node.MetricLambdasDefault

	LambdasMaxDefault          = 1000
	LambdaPartitionsMaxDefault = 1024
	PartitionsMaxDefault       = 10_000
)

func (c Config) withDefaults() Config {
	c.DataDir = cmp.Or(c.DataDir, DataDirDefault)
	c.Listen = cmp.Or(c.Listen, ListenDefault)
	c.Store = cmp.Or(c.Store, StorePebble)
	c.Queue = cmp.Or(c.Queue, QueueMemory)
	c.DrainMax = cmp.Or(c.DrainMax, DrainMaxDefault)
	c.LambdasMax = cmp.Or(c.LambdasMax, LambdasMaxDefault)
	c.LambdaPartitionsMax = cmp.Or(c.LambdaPartitionsMax, LambdaPartitionsMaxDefault)
	c.PartitionsMax = cmp.Or(c.PartitionsMax, PartitionsMaxDefault)
	c.Membership = c.membershipOrDefault()
	if len(c.Roles) == 0 {
		c.Roles = Roles()
	}
	if slices.Contains(c.Roles, node.RoleScheduler) && !slices.Contains(c.Roles, node.RoleDispatcher) {
		c.Roles = append(slices.Clip(c.Roles), node.RoleDispatcher) // the scheduler dispatches through its own process
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Validate checks the whole configuration. Its error is ErrConfig, with a line for each invalid value that
// says what is allowed.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	for _, role := range c.Roles {
		if !slices.Contains(Roles(), role) {
			errs = append(errs, fmt.Errorf("unknown role %q: want any of %s", role, strings.Join(Roles(), ", ")))
		}
	}
	if slices.Contains(c.Roles, node.RoleDispatcher) && !slices.Contains(c.Roles, node.RoleScheduler) {
		errs = append(errs, errors.New("role dispatcher without role scheduler: it sends the due tasks of the scheduler in its process; "+
			"want scheduler, which includes it"))
	}
	errs = append(errs, checkListen(c.Listen, c.isAuthenticated()))
	if (c.TLSCertFile == "") != (c.TLSKeyFile == "") {
		errs = append(errs, errors.New("a TLS certificate without its key, or a key without its certificate: "+
			"want both (--tls-cert-file, --tls-key-file), or none"))
	}
	if c.PayloadBytesMax < 0 || c.PayloadBytesMax > payloadBytesCeil {
		errs = append(errs, fmt.Errorf("payload limit %d: want 1 to %d bytes", c.PayloadBytesMax, payloadBytesCeil))
	}
	if c.Horizon < 0 || c.Window < 0 || c.DrainMax < 0 {
		errs = append(errs, errors.New("horizon, window and drain limit cannot be negative"))
	}
	if c.LambdasMax < 0 || c.LambdaPartitionsMax < 0 || c.PartitionsMax < 0 {
		errs = append(errs, fmt.Errorf("at most %d lambdas, %d partitions of each and %d in all: want 1 or more",
			c.LambdasMax, c.LambdaPartitionsMax, c.PartitionsMax))
	}
	if c.ConnectionsPerAddress < 0 {
		errs = append(errs, fmt.Errorf("%d connections per address: want 1 or more", c.ConnectionsPerAddress))
	}
	if !(c.TraceSample >= 0 && c.TraceSample <= 1) {
		errs = append(errs, fmt.Errorf("share of traced calls %v: want 0 to 1", c.TraceSample))
	}
	if (c.TraceSample > 0 || c.OTLPMetrics) && c.OTLPEndpoint == "" && !c.OTLPByEnv {
		errs = append(errs, errors.New("traces or metrics to an OpenTelemetry collector without its address: set --otlp-endpoint, such as http://localhost:4318"))
	}
	if c.MetricLambdas < 0 {
		errs = append(errs, fmt.Errorf("series of their own for %d lambdas: want 1 or more", c.MetricLambdas))
	}
	if !isTraceURL(c.TraceURL) {
		errs = append(errs, fmt.Errorf("trace URL %q: want an http or https URL without a user and with {trace_id} in it, such as https://traces.example/trace/{trace_id}", c.TraceURL))
	}
	if c.ConsoleRowsMax < 0 {
		errs = append(errs, fmt.Errorf("%d rows for the forecast of the console: want 1 or more", c.ConsoleRowsMax))
	}
	errs = append(errs, c.checkConsoleOIDC())
	if c.OTLPEndpoint != "" {
		errs = append(errs, otlp.CheckEndpoint(c.OTLPEndpoint))
	}
	errs = append(errs, c.checkTargets(), c.checkDrivers(), c.checkBackup(), c.checkMembership(), c.checkAWS())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return nil
}

// onAWS reports whether the configuration uses AWS.
func (c Config) onAWS() bool { return c.Store == StoreDynamoDB || c.Queue == QueueSQS || c.Inbound }

func (c Config) checkDrivers() error {
	var errs []error
	if !slices.Contains(Stores(), c.Store) {
		errs = append(errs, fmt.Errorf("unknown store %q: want %s", c.Store, strings.Join(Stores(), " or ")))
	}
	if !slices.Contains(Queues(), c.Queue) {
		errs = append(errs, fmt.Errorf("unknown queue %q: want %s", c.Queue, strings.Join(Queues(), " or ")))
	}
	if c.Store == StoreDynamoDB && c.Queue == QueueMemory {
		errs = append(errs, errors.New("store dynamodb with queue memory: processes share that store, but not the queue in the memory of one of them; "+
			"use queue sqs"))
	}
	return errors.Join(errs...)
}

func (c Config) checkAWS() error {
	var errs []error
	refuse := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf(format, args...))
	}
	if c.Store == StoreDynamoDB && c.Window > windowSharedMax {
		refuse("window %v with store dynamodb: want at most %v, so that a scan finds in time what another process stored", c.Window, windowSharedMax)
	}
	switch {
	case c.AWSPrefix == "" && c.onAWS():
		refuse("store dynamodb, queue sqs and the inbound queue need an AWS prefix, which begins the names of their tables and queues; " +
			"set --aws-prefix, the same for all processes of an installation")
	case c.AWSPrefix != "" && !c.onAWS():
		refuse("AWS prefix %q with store %s and queue %s, neither of which is on AWS: choose --store dynamodb --queue sqs, or leave --aws-prefix out",
			c.AWSPrefix, c.Store, c.Queue)
	case c.AWSPrefix != "" && dynamo.CheckPrefix(c.AWSPrefix) != nil:
		refuse("AWS %w", dynamo.CheckPrefix(c.AWSPrefix))
	}
	if c.MessageBytesMax != 0 && (c.MessageBytesMax < messageBytesMin || c.MessageBytesMax > messageBytesCeil) {
		refuse("message limit %d: want %d to %d bytes", c.MessageBytesMax, messageBytesMin, messageBytesCeil)
	}
	if c.DeliverDirect > deliverDirectMax {
		refuse("deliver directly %v ahead: want 0s to %v, as long as SQS holds a message back", c.DeliverDirect, deliverDirectMax)
	}
	if c.InboundConcurrency < 0 || c.InboundConcurrency > inboundConcurrencyMax {
		refuse("inbound concurrency %d: want 1 to %d", c.InboundConcurrency, inboundConcurrencyMax)
	}
	if math.IsNaN(c.InboundRate) || math.IsInf(c.InboundRate, 0) {
		refuse("inbound rate %v: want tasks per second, or less than 0 for no bound", c.InboundRate)
	}
	return errors.Join(errs...)
}

// payloadBytesCeil keeps a call with a single task well below the limit of the API.
const payloadBytesCeil = 4 << 20

// checkListen refuses addresses beyond loopback unless calls need a token: whoever reaches the port may
// schedule, cancel and execute everything.
func checkListen(listen string, tokens bool) error {
	host, port, err := net.SplitHostPort(listen)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("listen address %q: want host:port with a port of 0 to 65535 (0: any free one), for example %s", listen, ListenDefault)
	}
	if ip := net.ParseIP(host); tokens || host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return beyondLoopback(listen)
}

// isAuthenticated reports whether calls need a token or a certificate.
func (c *Config) isAuthenticated() bool { return c.AuthTokenFile != "" || c.PolicyFile != "" }

func beyondLoopback(listen string) error {
	return fmt.Errorf("listen address %q is beyond loopback: whoever reaches it could run and cancel everything, "+
		"so it is refused without authentication; set --auth-token-file to a file of tokens, one of which each call then needs, "+
		"or --policy to a file of identities, or use 127.0.0.1, ::1 or localhost", listen)
}

// isTraceURL reports whether a text leads to a trace once it has its id, or is empty.
func isTraceURL(text string) bool {
	if text == "" {
		return true
	}
	u, err := url.Parse(strings.ReplaceAll(text, web.TraceID, "0"))
	return err == nil && strings.Contains(text, web.TraceID) && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil // it is in pages
}

// settings returns the configuration without secrets, for `kinesin debug bundle`. Files with secrets are
// named, and not read. Durations are texts.
func (c *Config) settings() map[string]any {
	copied := *c
	copied.Log, copied.LogControl, copied.AuditTo = nil, nil, nil
	copied.OTLPEndpoint = withoutSecrets(c.OTLPEndpoint)
	text, err := json.Marshal(copied) //nolint:staticcheck // the fields with functions are nil
	all := map[string]any{}
	if err != nil || json.Unmarshal(text, &all) != nil {
		return all
	}
	for name, d := range map[string]time.Duration{
		"AuditKeep": c.AuditKeep, "Horizon": c.Horizon, "Window": c.Window, "DrainMax": c.DrainMax, "DeliverDirect": c.DeliverDirect,
		"BackupEvery": c.BackupEvery, "BackupKeep": c.BackupKeep,
	} {
		all[name] = d.String()
	}
	for _, name := range []string{"Log", "LogControl", "AuditTo"} {
		delete(all, name)
	}
	return all
}

// withoutSecrets returns a URL without what may be one: some collectors take a token as the name of a user,
// or as a parameter.
func withoutSecrets(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "a URL that cannot be read"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// ConsoleOIDC is the OpenID Connect client as which browsers sign in to the console. The policy decides what
// somebody may do who has signed in, by what its issuer says of him.
type ConsoleOIDC struct {
	// Issuer is the URL of an issuer of the policy; empty: nobody signs in at its page.
	Issuer string
	// ClientID and ClientSecretFile are of the client that is registered there. A client without a secret is
	// told from others by PKCE alone. The file is read again when it changes.
	ClientID, ClientSecretFile string
	// Scopes are asked for besides openid; email.
	Scopes []string
	// RedirectURL is where the provider leads back to, exactly as it is registered there: web.CallbackPath
	// under the public name of the console. Empty: as the browser named the server.
	RedirectURL string
}

func (c Config) checkConsoleOIDC() error {
	o := c.ConsoleOIDC
	var errs []error
	if o.Issuer == "" {
		if o.ClientID != "" || o.ClientSecretFile != "" || len(o.Scopes) > 0 || o.RedirectURL != "" {
			errs = append(errs, errors.New("a client of an OpenID Connect provider without the provider: set --console-oidc-issuer"))
		}
		return errors.Join(errs...)
	}
	if u, err := url.Parse(o.Issuer); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		errs = append(errs, fmt.Errorf("OpenID Connect issuer %q: want a URL, such as https://accounts.google.com", o.Issuer))
	}
	if o.ClientID == "" {
		errs = append(errs, errors.New("an OpenID Connect issuer without a client: set --console-oidc-client-id to that which is registered there"))
	}
	if c.PolicyFile == "" {
		errs = append(errs, errors.New("sign-in at an OpenID Connect provider without a policy: set --policy to a file that names the issuer, and says who of its subjects may do what"))
	}
	if c.NoConsole {
		errs = append(errs, errors.New("sign-in to a console that is off: leave out --console=false or --console-oidc-issuer"))
	}
	for _, s := range o.Scopes {
		if s == "" || strings.ContainsAny(s, " \"\\\t\r\n") {
			errs = append(errs, fmt.Errorf("OpenID Connect scope %q: want one word for each, such as email,groups", s))
		}
	}
	if o.RedirectURL != "" {
		u, err := url.Parse(o.RedirectURL)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.Path != web.CallbackPath || u.RawQuery != "" || u.Fragment != "" {
			errs = append(errs, fmt.Errorf("OpenID Connect redirect URL %q: want https://HOST%s", o.RedirectURL, web.CallbackPath))
		}
	}
	return errors.Join(errs...)
}
