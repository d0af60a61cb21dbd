package node

import (
	"io"
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
)

// Handler serves everything this node does on one port: gRPC, gRPC-Web and JSON over HTTP for
// the roles it has, metrics, and health.
func (n *Node) Handler() http.Handler {
	mux := http.NewServeMux()
	options := api.HandlerOptions(api.Hooks{Internal: n.internalError})
	if n.inbound != nil {
		mux.Handle(kinesinv1connect.NewTaskServiceHandler(n.inbound, options...))
		mux.Handle(kinesinv1connect.NewLambdaServiceHandler(n.inbound, options...))
		mux.Handle(kinesinv1connect.NewInboundServiceHandler(n.inbound, options...))
	}
	if n.hsc != nil {
		mux.Handle(kinesinv1connect.NewWorkerServiceHandler(n.hsc, options...))
	}
	mux.Handle("GET /metrics", promhttp.HandlerFor(n.metrics.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", n.readyz)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		say(w, http.StatusNotFound, "nothing is served here; the API is under /kinesin.v1.TaskService/, "+
			"/kinesin.v1.LambdaService/, /kinesin.v1.WorkerService/ and /kinesin.v1.InboundService/, besides /metrics, /healthz and /readyz")
	})
	return mux
}

// readyz says whether new work is welcome here, and if not, why.
func (n *Node) readyz(w http.ResponseWriter, _ *http.Request) {
	if reason := n.notReady(); reason != "" {
		say(w, http.StatusServiceUnavailable, reason)
		return
	}
	say(w, http.StatusOK, "ready")
}

func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n")
}
