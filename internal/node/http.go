package node

import (
	"io"
	"net/http"
	"net/http/pprof"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/inbound/jobs"
	"github.com/kinesin-io/kinesin/internal/access"
)

// Handler serves all of this node on one port: gRPC, gRPC-Web and JSON over HTTP for its roles, metrics, and
// health. A call may do what the caller in its context may; see Trusting.
func (n *Node) Handler() http.Handler {
	mux := http.NewServeMux()
	options := api.HandlerOptions(api.Hooks{Internal: n.internalError})
	if n.inbound != nil {
		mux.Handle(kinesinv1connect.NewTaskServiceHandler(n.guard.Tasks(n.inbound), options...))
		mux.Handle(kinesinv1connect.NewJobServiceHandler(n.guard.Jobs(n.jobs, jobs.VerbOf), options...))
		mux.Handle(kinesinv1connect.NewLambdaServiceHandler(n.guard.Lambdas(n.lambdas), options...))
		mux.Handle(kinesinv1connect.NewInboundServiceHandler(n.guard.Inbound(n.ingest), options...))
		mux.Handle(kinesinv1connect.NewKeyringServiceHandler(n.guard.Keyring(n.keyring), options...))
	}
	if n.hsc != nil {
		mux.Handle(kinesinv1connect.NewWorkerServiceHandler(n.hsc, options...))
	}
	mux.Handle(kinesinv1connect.NewBackupServiceHandler(n.guard.Backups(newBackups(n)), options...))
	mux.Handle(kinesinv1connect.NewAccessServiceHandler(n.guard.Access(n.tokens, n.taken), options...))
	mux.Handle("GET /metrics", needing(access.Metrics, promhttp.HandlerFor(n.metrics.registry, promhttp.HandlerOpts{})))
	mux.Handle("GET /debug/pprof/", needing(access.Debug, http.HandlerFunc(pprof.Index)))
	mux.Handle("GET /debug/pprof/profile", needing(access.Debug, http.HandlerFunc(pprof.Profile)))
	mux.Handle("GET /debug/pprof/trace", needing(access.Debug, http.HandlerFunc(pprof.Trace)))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /livez", probe("ok", n.notLive))
	mux.HandleFunc("GET /readyz", probe("ready", n.notReady))
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		say(w, http.StatusNotFound, "nothing is served here; the API is under /kinesin.v1.TaskService/, "+
			"/kinesin.v1.JobService/, /kinesin.v1.LambdaService/, /kinesin.v1.WorkerService/, /kinesin.v1.InboundService/, /kinesin.v1.KeyringService/, "+
			"/kinesin.v1.BackupService/ and /kinesin.v1.AccessService/, besides /metrics, /debug/pprof/, /livez, /readyz and /healthz")
	})
	return mux
}

// probe answers well, or 503 and a short reason; short, because probes need no token.
func probe(well string, wrong func() string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if reason := wrong(); reason != "" {
			say(w, http.StatusServiceUnavailable, reason)
			return
		}
		say(w, http.StatusOK, well)
	}
}

func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n")
}
