package harness

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/awslocal"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/test/checker"
)

// SettleMax is how long all tasks of a test may take to end.
const SettleMax = 2 * time.Minute

// Options say what a site is.
type Options struct {
	// AWS has tables and queues in place of an embedded store; endpoints that are empty are those that all
	// tests share.
	AWS    *awslocal.Endpoints
	Server ServerOptions      // of all servers
	Client []sdk.ClientOption // of the client
	Bounds checker.Options    // of Finish
	Runner Runner             // of the tasks; empty: Workers
}

// Site is an installation of Kinesin: its servers, and what happens to its tasks. Once it has a lambda it is
// a client as well.
type Site struct {
	*Client // at the first server; nil before Lambda

	T       testing.TB
	AWS     AWS
	History *History
	Servers []*Server
	// Receives is the host and port at which receivers of targets listen.
	Receives string

	options Options
	lambda  string
}

// New is a site without servers. On AWS nothing is set up yet.
func New(tb testing.TB, o Options) *Site {
	tb.Helper()
	s := &Site{T: tb, options: o, History: newHistory(tb)}
	s.options.Bounds.Called = o.Runner.IsTarget()
	s.aim()
	if o.AWS != nil {
		s.AWS = newAWS(tb, *o.AWS)
	}
	return s
}

// Serve starts one more server, with flags besides those of all, and waits until it is ready.
func (s *Site) Serve(args ...string) *Server {
	s.T.Helper()
	o := s.options.Server
	o.history = s.History
	if s.options.AWS != nil {
		o.Args = append([]string{"--store", "dynamodb", "--queue", "sqs", "--aws-prefix", s.AWS.Prefix}, o.Args...)
		o.Env = s.AWS.Env()
	}
	o.Args = slices.Concat(o.Args, args)
	server := StartServer(s.T, o)
	s.Servers = append(s.Servers, server)
	return server
}

// Lambda creates the lambda on which the client schedules and for which workers run. It is named work and its
// tasks are tried again within a second, unless it says otherwise.
func (s *Site) Lambda(l admin.Lambda) {
	s.T.Helper()
	l.Name = cmp.Or(l.Name, "work")
	if l.Mode == "" && l.BackoffMin == 0 {
		l.BackoffMin, l.BackoffMax = 50*time.Millisecond, time.Second
	}
	if l.Target == nil {
		l.Target = s.target()
	}
	s.lambda, s.Client = l.Name, s.At(s.Servers[0])
	ctx, cancel := s.within()
	defer cancel()
	if _, _, err := admin.New(s.Client.Client).Lambdas.Create(ctx, l); err != nil {
		s.T.Fatal(err)
	}
}

// Finish waits until all tasks have ended, and judges the history.
func (s *Site) Finish(tasks []sdk.ID) []sdk.TaskInfo {
	s.T.Helper()
	infos := s.Settle(SettleMax, tasks)
	s.History.check(s.options.Bounds)
	return infos
}
