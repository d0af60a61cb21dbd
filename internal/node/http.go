package node

import (
	"bufio"
	"io"
	"net/http"
	"net/http/pprof"
	"slices"

	"connectrpc.com/connect"
	"connectrpc.com/grpcreflect"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/jsonform"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/rest"
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
