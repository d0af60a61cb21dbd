package node

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/pprof"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"connectrpc.com/grpcreflect"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/jsonform"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/rest"
	"github.com/kinesin-io/kinesin/internal/tracing"
)

// Handler serves all of this node on one port: gRPC, gRPC-Web and JSON over HTTP for its roles, metrics, and
// health. A call may do what the caller in its context may; see Trusting.
func (n *Node) Handler() http.Handler {
	mux := http.NewServeMux()
	options := append(slices.Clip(n.spans), api.HandlerOptions(api.Hooks{Internal: n.internalError})...)
	options = append(options, jsonform.HandlerOption())
	of := n.Services()
	if n.inbound != nil {
		mux.Handle(kinesinv1connect.NewDeadLetterServiceHandler(of.DeadLetters, options...))
		mux.Handle(kinesinv1connect.NewTaskServiceHandler(of.Tasks, options...))
		mux.Handle(kinesinv1connect.NewGateServiceHandler(of.Gates, options...))
		mux.Handle(kinesinv1connect.NewCronServiceHandler(of.Crons, options...))
		mux.Handle(kinesinv1connect.NewChainServiceHandler(of.Chains, options...))
		mux.Handle(kinesinv1connect.NewGroupServiceHandler(of.Groups, options...))
		mux.Handle(kinesinv1connect.NewJobServiceHandler(of.Jobs, options...))
		mux.Handle(kinesinv1connect.NewLambdaServiceHandler(of.Lambdas, options...))
		mux.Handle(kinesinv1connect.NewQuotaServiceHandler(of.Quotas, options...))
		mux.Handle(kinesinv1connect.NewObjectiveServiceHandler(of.Objectives, options...))
		mux.Handle(kinesinv1connect.NewInboundServiceHandler(of.Inbound, options...))
		mux.Handle(kinesinv1connect.NewKeyringServiceHandler(of.Keyring, options...))
	}
	if n.hsc != nil {
		path, h := kinesinv1connect.NewWorkerServiceHandler(of.Workers, options...)
		mux.Handle(path, h)
		mux.Handle(kinesinv1connect.WorkerServiceWorkProcedure, buffered(h))
	}
	mux.Handle(kinesinv1connect.NewBackupServiceHandler(n.guard.Backups(newBackups(n)), options...))
	mux.Handle(kinesinv1connect.NewAccessServiceHandler(of.Access, options...))
	reflector := grpcreflect.NewStaticReflector(services()...)
	for _, reflection := range []func(*grpcreflect.Reflector, ...connect.HandlerOption) (string, http.Handler){grpcreflect.NewHandlerV1, grpcreflect.NewHandlerV1Alpha} {
		path, h := reflection(reflector, options...)
		mux.Handle(path, n.needing(access.Debug, h))
	}
	mux.Handle("GET /metrics", n.needing(access.Metrics, promhttp.HandlerFor(n.metrics.registry, promhttp.HandlerOpts{EnableOpenMetrics: true})))
	mux.Handle("GET /debug/pprof/", n.needing(access.Debug, http.HandlerFunc(pprof.Index)))
	mux.Handle("GET /debug/pprof/profile", n.needing(access.Debug, http.HandlerFunc(pprof.Profile)))
	mux.Handle("GET /debug/pprof/trace", n.needing(access.Debug, http.HandlerFunc(pprof.Trace)))
	n.debugRoutes(mux)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /livez", probe(func() string { return "ok" }, n.NotLive))
	mux.HandleFunc("GET /readyz", probe(n.ready, n.NotReady))
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		say(w, http.StatusNotFound, "nothing is served here; the API is under /kinesin.v1.TaskService/, "+
			"/kinesin.v1.JobService/, /kinesin.v1.GateService/, /kinesin.v1.CronService/, /kinesin.v1.ChainService/, /kinesin.v1.GroupService/, /kinesin.v1.DeadLetterService/, /kinesin.v1.LambdaService/, /kinesin.v1.QuotaService/, /kinesin.v1.ObjectiveService/, /kinesin.v1.WorkerService/, /kinesin.v1.InboundService/, /kinesin.v1.KeyringService/, "+
			"/kinesin.v1.BackupService/ and /kinesin.v1.AccessService/, and in plain HTTP under /v1/, which /v1/openapi.json describes; besides the console under /ui/ where it is on, /metrics, /debug/pprof/, /livez, /readyz and /healthz")
	})
	return withRequestID(withPlain(n.tracer.Plain(rest.New(of.Services, api.Hooks{Internal: n.internalError})), mux))
}

// buffered has a message and what stands before it read at once: each read of a body over HTTP/2 wakes another goroutine.
func buffered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = struct {
			io.Reader
			io.Closer
		}{bufio.NewReader(r.Body), r.Body}
		next.ServeHTTP(w, r)
	})
}

// services returns the names of all services of the contract.
func services() (names []string) {
	for _, service := range api.Services() {
		names = append(names, string(service.FullName()))
	}
	return names
}

// Trusting lets every call do everything, as access.Anonymous. It is for tests, and for whoever has decided
// that a call needs no token.
func Trusting(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(access.With(r.Context(), access.Caller{Identity: access.Anonymous(), From: r.RemoteAddr})))
	})
}

// needing refuses calls of which the caller has not the verb.
func (n *Node) needing(v access.Verb, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n.guard.Read(r.Context(), r.URL.Path, v) != nil {
			say(w, http.StatusForbidden, access.From(r.Context()).Denied(v, "").Error())
			return
		}
		next.ServeHTTP(w, r)
	})
}

// requestIDHeader names a call in the log and in its answer.
const requestIDHeader = "X-Request-Id"

// requestIDMax bounds an id that the caller chose, in bytes.
const requestIDMax = 64

type requestIDKey struct{}

// withRequestID gives each call an id, its caller's if that is a short word.
func withRequestID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(requestIDHeader)
		if id == "" || len(id) > requestIDMax || strings.ContainsFunc(id, func(c rune) bool { return c <= ' ' || c > '~' || c == '"' }) {
			var random [8]byte
			for i := range random {
				random[i] = byte(rand.Uint32()) //nolint:gosec // no secret
			}
			id = hex.EncodeToString(random[:])
		}
		w.Header().Set(requestIDHeader, id)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), requestIDKey{}, id)))
	})
}

// LogIDs returns the ids of a context's request and trace, for the log.
func LogIDs(ctx context.Context) (attrs []slog.Attr) {
	if id, is := ctx.Value(requestIDKey{}).(string); is {
		attrs = append(attrs, slog.String("request_id", id))
	}
	if id := tracing.TraceIDOf(ctx); id != "" {
		attrs = append(attrs, slog.String("trace_id", id))
	}
	return attrs
}

// withPlain serves the plain API beside everything else. It gets the path as it was sent, since a key may
// have any characters, and http.ServeMux redirects some.
func withPlain(plain, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, api.PlainPrefix) {
			plain.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// probe answers well, or 503 and a short reason; short, because probes need no token.
func probe(well, wrong func() string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if reason := wrong(); reason != "" {
			say(w, http.StatusServiceUnavailable, reason)
			return
		}
		say(w, http.StatusOK, well())
	}
}

func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n") //nolint:gosec // plain text
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(v)
}
