package harness

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/test/checker"
)

// readyMax is how long a server may take to be ready.
const readyMax = 30 * time.Second

// ServerOptions say how to run a server. The zero value is what `kinesin serve` does by default, at a
// free port and in a new data directory.
type ServerOptions struct {
	Dir    string
	Args   []string // besides --data and --listen
	Queued bool     // all tasks go through their queues, also where a worker waits; MatchEnv decides when it is set
	// LeasesOnly: workers are as those on other machines are, though they run beside the server: only leases
	// tell that one is lost.
	LeasesOnly bool
	Env        []string
	Host       string // what to listen on, loopback among it; empty: loopback alone
	Clock      *Clock // its wall clock; nil: the machine's
	FilesMax   int    // how many files it may have open; 0: as many as the test

	history *History // where kills are written down; nil outside of a site
}

// MatchEnv is the setting by which a whole suite runs one way: with true, tasks go straight to workers that
// wait, with false always through their queues. Without it each scenario says which of the two it runs.
const MatchEnv = "KINESIN_MATCH"

// Server is `kinesin serve`, which can be killed and started again in the same place.
type Server struct {
	*Process

	URL  string
	Addr string
	Dir  string

	tb      testing.TB
	options ServerOptions
}

// StartServer starts a server and waits until it is ready.
func StartServer(tb testing.TB, o ServerOptions) *Server {
	tb.Helper()
	if o.Dir == "" {
		o.Dir = filepath.Join(tb.TempDir(), "data")
	}
	addr := FreeAddr(tb)
	s := &Server{tb: tb, options: o, Addr: addr, URL: "http://" + addr, Dir: o.Dir}
	s.Start()
	return s
}

// Start starts the server again, in its place, and waits until it is ready.
func (s *Server) Start() {
	s.tb.Helper()
	s.Launch()
	s.WaitReadyz(readyMax, http.StatusOK)
	s.options.history.Add(checker.Event{Kind: checker.ServerUp})
}

// Launch starts the server again, in its place.
func (s *Server) Launch() {
	s.tb.Helper()
	listen := s.Addr
	if host := s.options.Host; host != "" {
		listen = host + listen[strings.LastIndexByte(listen, ':'):]
	}
	args := slices.Concat([]string{"serve", "--data", s.Dir, "--listen", listen}, s.options.Args)
	if s.options.Queued && os.Getenv(MatchEnv) == "" {
		args = append(args, "--match=false")
	}
	if s.options.LeasesOnly {
		args = append(args, "--watch-workers=false")
	}
	s.Process = Start(s.tb, Command{Args: args, Env: s.options.Env, Clock: s.options.Clock, FilesMax: s.options.FilesMax})
}

// SetQueued says which way tasks go from the next start on.
func (s *Server) SetQueued(queued bool) { s.options.Queued = queued }

// WaitReadyz waits until /readyz answers with one of the statuses.
func (s *Server) WaitReadyz(atMost time.Duration, statuses ...int) {
	s.tb.Helper()
	deadline := time.Now().Add(atMost)
	for {
		got, _, err := s.get("/readyz", time.Second)
		if err == nil && slices.Contains(statuses, got) {
			return
		}
		if !s.Alive() {
			s.tb.Fatalf("the server ended instead of getting ready:\n%s", tail(s.Stderr()))
		}
		if time.Now().After(deadline) {
			s.tb.Fatalf("/readyz did not answer %v within %v: %d, %v\n%s", statuses, atMost, got, err, tail(s.Stderr()))
		}
		time.Sleep(pollEvery)
	}
}

func (s *Server) get(path string, atMost time.Duration) (status int, body string, err error) {
	client := http.Client{Timeout: atMost, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(s.URL + path)
	if err != nil {
		return 0, "", fmt.Errorf("%s: %w", path, err)
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	return response.StatusCode, string(content), err
}

// Fetch is what the server answers at a path.
func (s *Server) Fetch(path string) (status int, body string) {
	s.tb.Helper()
	status, body, err := s.get(path, callMax)
	if err != nil {
		s.tb.Fatal(err)
	}
	return status, body
}

// Crash kills the server with SIGKILL.
func (s *Server) Crash() {
	s.tb.Helper()
	s.options.history.Add(checker.Event{Kind: checker.ServerDown})
	s.Kill()
}

// Shutdown ends the server with SIGTERM and returns its exit status.
func (s *Server) Shutdown() int {
	s.tb.Helper()
	s.options.history.Add(checker.Event{Kind: checker.ServerDown})
	s.Signal(syscall.SIGTERM)
	return s.Wait(ExitMax)
}

// Run runs a client command of this server to its end.
func (s *Server) Run(args ...string) Result { s.tb.Helper(); return s.Feed("", args...) }

// Feed is Run with a standard input.
func (s *Server) Feed(input string, args ...string) Result {
	s.tb.Helper()
	return Command{Args: slices.Concat(args, []string{"--server", s.URL}), Stdin: input}.Run(s.tb)
}

// CommandWorker starts `kinesin worker ARGS` at this server.
func (s *Server) CommandWorker(args ...string) *Worker {
	s.tb.Helper()
	return watched(s.tb, s.options.history, Command{Args: append([]string{"worker"}, args...), Env: []string{"KINESIN_SERVER=" + s.URL}})
}

// Shown is a task as `kinesin get -o json` shows it.
type Shown struct {
	ID          string    `json:"id"`
	Lambda      string    `json:"lambda"`
	State       string    `json:"state"`
	Priority    string    `json:"priority"`
	Collection  string    `json:"collection"`
	Key         string    `json:"key"`
	Due         time.Time `json:"due"`
	Started     time.Time `json:"started"`
	Ended       time.Time `json:"ended"`
	Attempt     int       `json:"attempt"`
	Failures    int       `json:"failures"`
	MaxAttempts int       `json:"max_attempts"`
	Attempts    []struct {
		Worker  string `json:"worker"`
		Outcome string `json:"outcome"`
		Error   string `json:"error"`
	} `json:"attempts"`
}

// StartedWithin reports whether the task has started, not before its due time and at most so long after it.
func (v Shown) StartedWithin(d time.Duration) bool {
	return !v.Started.IsZero() && !v.Started.Before(v.Due) && v.Started.Sub(v.Due) <= d
}

// Get runs `kinesin get`, which must succeed.
func (s *Server) Get(id string) (shown Shown) {
	s.tb.Helper()
	s.Run("get", id, "-o", "json").JSON(s.tb, &shown)
	return shown
}
